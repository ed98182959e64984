-- A script that asks other servers.
--   HTTP_DIR, HTTP_BASE, WEBSOCKET_BASE
--   HTTP_DKIM: a file for `policy-extras.dkim_sign`
local kumo = require 'kumo'
local base = require 'base'
local HTTP, WEBSOCKET = os.getenv 'HTTP_BASE', os.getenv 'WEBSOCKET_BASE'

-- Before the program serves, and after, with what was made before.
local function ask_early()
  local client = kumo.http.build_client {}
  assert(client:get(HTTP .. '/echo'):send():text() ~= '')
  local socket = kumo.http.connect_websocket(WEBSOCKET .. '/three')
  assert(socket:recv() == 'one')
  return function()
    assert(client:get(HTTP .. '/echo'):send():text() ~= '')
    assert(socket:recv() == '\xfftwo' and socket:recv() == 'three' and socket:recv() == nil)
  end
end

kumo.on('init', function()
  base.serve(os.getenv 'HTTP_DIR')
  if os.getenv 'HTTP_EARLY' then
    ask_early()()
  end
end)

local dkim = os.getenv 'HTTP_DKIM'
local sign = dkim and require('policy-extras.dkim_sign'):setup { dkim }

local client = kumo.http.build_client { user_agent = 'scripts/1', timeout = '5s' }

-- What the server saw.
local function asked(request)
  local response = request:send()
  assert(response:status_is_success(), response:status_code())
  local seen = kumo.serde.json_parse(response:text())
  seen.body = kumo.encode.base64_decode(seen.body)
  return seen, response
end

local function fails(needle, f, ...)
  local ok, why = pcall(f, ...)
  assert(not ok and tostring(why):find(needle, 1, true), tostring(why))
end

local ACTS = {}

function ACTS.get()
  local seen, response = asked(client:get(HTTP .. '/echo?q=1'):header('X-A', '1'):headers { ['X-B'] = '2', ['X-C'] = 'ü' })
  assert(seen.method == 'GET' and seen.path == '/echo?q=1' and seen.body == '')
  assert(seen.headers['x-a'][1] == '1' and seen.headers['x-b'][1] == '2' and seen.headers['user-agent'][1] == 'scripts/1')
  assert(response:status_code() == 200 and response:status_reason() == 'OK' and not response:status_is_client_error())
  assert(response:headers()['content-type'] == 'application/json' and response:headers()['CONTENT-TYPE'])
  assert(response:headers()['x-none'] == nil and response:content_length() > 20)
  fails('was read before', response.text, response)
end

function ACTS.bodies()
  assert(asked(client:post(HTTP .. '/echo'):body 'a\0\xff').body == 'a\0\xff')
  local seen = asked(client:put(HTTP .. '/echo'):form_url_encoded { a = '1 2', b = '&' })
  assert(seen.method == 'PUT' and seen.body == 'a=1+2&b=%26')
  assert(seen.headers['content-type'][1] == 'application/x-www-form-urlencoded')
  local form = { a = 'text', b = '\xff\xfe', c = { data = 'in a file', file_name = 'c.bin' } }
  seen = asked(client:post(HTTP .. '/echo'):form_multipart_data(form))
  assert(seen.headers['content-type'][1]:find '^multipart/form%-data; boundary=')
  assert(seen.body:find('name="a"\r\n\r\ntext', 1, true), seen.body)
  assert(seen.body:find('name="b"\r\nContent-Type: application/octet-stream\r\n\r\n\xff\xfe', 1, true), seen.body)
  assert(seen.body:find('name="c"; filename="c.bin"', 1, true), seen.body)
  fails('unknown field `name`', client:post(HTTP).form_multipart_data, client:post(HTTP), { a = { name = 'x' } })
end

function ACTS.who()
  assert(asked(client:get(HTTP .. '/echo'):basic_auth('u', 'p')).headers.authorization[1] == 'Basic dTpw')
  assert(asked(client:get(HTTP .. '/echo'):bearer_auth 't0ken').headers.authorization[1] == 'Bearer t0ken')
  local function signing(more)
    local options = {
      access_key = { key_data = 'AKIDEXAMPLE' },
      secret_key = { key_data = 'secret' },
      region = 'us-east-1',
      service = 'sqs',
      session_token = 'token',
      timestamp = '2015-08-30T12:36:00Z',
    }
    for name, value in pairs(more) do
      options[name] = value
    end
    return options
  end
  local request = client:post(HTTP .. '/echo?b=2&a=1'):body 'x'
  local seen = asked(request:aws_sign_v4(signing { headers = { ['X-Extra'] = 'yes' } })).headers
  assert(seen['x-amz-date'][1] == '20150830T123600Z' and seen['x-amz-security-token'][1] == 'token')
  local expected = kumo.crypto.aws_sign_v4(signing {
    method = 'POST',
    uri = '/echo',
    query_params = { a = '1', b = '2' },
    headers = { host = seen.host[1], ['x-extra'] = 'yes' },
    payload = 'x',
  })
  assert(seen.authorization[1] == expected.authorization, seen.authorization[1])
end

function ACTS.elsewhere()
  -- A secret goes to nobody but who is asked.
  local source = { vault_address = HTTP .. '/elsewhere', vault_token = 't0ken', vault_mount = 'secret', vault_path = 'dkim/a.test/s1' }
  fails('status 302', kumo.secrets.load, source)
end

function ACTS.answers()
  local function status(n)
    return client:get(HTTP .. '/status/' .. n):send()
  end
  assert(status(404):status_is_client_error() and status(404):status_reason() == 'Not Found')
  assert(status(503):status_is_server_error() and not status(503):status_is_success())
  assert(status(304):status_is_redirection() and status(299):status_reason() == nil)
  assert(asked(client:get(HTTP .. '/move')).path == '/echo?moved=1')
  assert(client:get(HTTP .. '/latin1'):send():text() == 'für')
  assert(client:get(HTTP .. '/latin1'):send():bytes() == 'f\xfcr')
  local seen = {}
  for name, value in pairs(client:get(HTTP .. '/twice'):send():headers()) do
    seen[#seen + 1] = name .. '=' .. value
  end
  assert(table.concat(seen, ' '):find('x-two=1 x-two=2', 1, true), table.concat(seen, ' '))
end

function ACTS.trouble()
  fails('timed out', client:get(HTTP .. '/silent'):timeout('300ms').send, client:get(HTTP .. '/silent'):timeout(0.3))
  fails('value of the header field `A`', client:get(HTTP).header, client:get(HTTP), 'A', 'b\nc')
  fails('expected http', client.get, client, 'file:///etc/passwd')
  fails('user_agnet', kumo.http.build_client, { user_agnet = 'x' })
  local request = client:get(HTTP .. '/echo')
  request:send()
  fails('sent before', request.send, request)
  local closed = kumo.http.build_client {}
  closed:close()
  fails('client was closed', closed.get, closed, HTTP)
end

function ACTS.vault()
  local source = { vault_address = HTTP, vault_token = 't0ken', vault_mount = 'secret', vault_path = 'dkim/a.test/s1' }
  assert(kumo.secrets.load(source) == 'the key')
  source.vault_key = 'other'
  assert(kumo.secrets.load(source) == 'another')
  source.vault_key = 'none'
  fails('no member `none`', kumo.secrets.load, source)
  source.vault_path = 'dkim/b.test/s1'
  fails('status 404', kumo.secrets.load, source)
  source.vault_token = 'wrong'
  fails('permission denied', kumo.secrets.load, source)
  source.vault_token = nil
  fails('VAULT_TOKEN', kumo.secrets.load, source)
end

function ACTS.signed()
  -- Asked of Vault by the helper, at the address and with the token of the environment.
  local msg = kumo.make_message('a@a.test', 'b@b.test', 'From: a@a.test\r\nSubject: x\r\n\r\nbody\r\n')
  sign(msg)
  local field = msg:get_first_named_header_value 'DKIM-Signature'
  assert(field and field:find('a=ed25519-sha256; d=a.test; s=s1;', 1, true), field)
end

function ACTS.shaping()
  -- A file may have moved to another host.
  for _, url in ipairs { HTTP .. '/shaping.toml', HTTP .. '/elsewhere/shaping.toml' } do
    local loaded = kumo.shaping.load({ url }, { remote_load = 'Error' })
    assert(loaded:get_egress_path_config('far.test', 'ip-1', 'mx').connection_limit == 7)
  end
  fails('status 404', kumo.shaping.load, { HTTP .. '/status/404' }, { remote_load = 'Error' })
  fails('timed out', kumo.shaping.load, { HTTP .. '/silent' }, { remote_load = 'Error', http_timeout = '300ms' })
  local without = kumo.shaping.load({ HTTP .. '/status/404' }, { remote_load = 'Warn' })
  assert(#without:get_errors() == 0 and without:get_warnings()[1]:find('status 404', 1, true))
  assert(#kumo.shaping.load({ HTTP .. '/status/404' }, { skip_remote = true, remote_load = 'Warn' }):get_warnings() == 0)
end

-- Nobody listens at the port given; or nobody vouches for who does.
function ACTS.refused()
  fails('onnect', client:get(HTTP .. '/echo').send, client:get(HTTP .. '/echo'))
end

function ACTS.untrusted()
  fails('ertificate', client:get(HTTP .. '/echo').send, client:get(HTTP .. '/echo'))
  local careless = kumo.http.build_client { accept_invalid_certs = true }
  assert(careless:get(HTTP .. '/echo'):send():status_is_success())
  fails('ertificate', kumo.http.connect_websocket, WEBSOCKET .. '/three')
end

function ACTS.websocket()
  local socket, response = kumo.http.connect_websocket(WEBSOCKET .. '/three')
  assert(response:status_code() == 101 and response:status_is_informational())
  assert(response:headers().upgrade:lower() == 'websocket')
  assert(socket:recv() == 'one' and socket:recv() == '\xfftwo' and socket:recv() == 'three' and socket:recv() == nil)
  socket = kumo.http.connect_websocket(WEBSOCKET .. '/three')
  assert(table.concat(socket:recv_batch '20s', ',') == 'one,\xfftwo,three')
  fails('websocket closed', socket.recv_batch, socket, '20s')
  socket = kumo.http.connect_websocket(WEBSOCKET .. '/quiet')
  assert(#socket:recv_batch(0.05) == 0)
  fails('HTTP error: 404 Not Found', kumo.http.connect_websocket, WEBSOCKET .. '/none')
  fails('expected ws://HOST', kumo.http.connect_websocket, 'http://a.test/')
end

function ACTS.events()
  local client = kumo.http.build_client { timeout = '20s' }
  local events, response = client:get(HTTP .. '/events'):events()
  assert(response:status_code() == 200)
  local first = events:recv()
  assert(first.event == 'message' and first.data == 'one' and first.id == '1' and first.retry == nil)
  client:get(HTTP .. '/go'):send()
  local second = events:recv()
  assert(second.event == 'bounce' and second.data == 'two\nlines' and second.id == '1' and second.retry == 50)
  assert(events:recv() == nil)
  local none = client:get(HTTP .. '/status/404')
  fails('HTTP error: 404 Not Found', none.events, none)
  local other = client:get(HTTP .. '/echo')
  fails('expected text/event-stream', other.events, other)
end

kumo.on('smtp_server_mail_from', function(sender)
  local ok, why = pcall(ACTS[sender.user])
  kumo.reject(450, ok and 'as it should be' or tostring(why))
end)
