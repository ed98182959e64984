-- A script that publishes to message brokers.
--   BROKERS_DIR
--   NATS, NATS_CA; AMQP_PORT, AMQP_TLS_PORT, AMQP_CA; KAFKA, KAFKA_CA, KAFKA_OTHER_CA: where they are and who vouches for them
--   SILENT: HOST:PORT of somebody who takes connections and says nothing; CLOSED: of nobody
local kumo = require 'kumo'
local base = require 'base'
local env = os.getenv

local function fails(needle, f, ...)
  local ok, why = pcall(f, ...)
  why = tostring(why)
  assert(not ok and why:find(needle, 1, true), 'expected ' .. needle .. ', got ' .. why)
  assert(not why:find('s3cret', 1, true), 'a password: ' .. why)
end

-- The same, and it must not take longer than that.
local function fails_within(seconds, needle, f, ...)
  local begun = kumo.time.now()
  fails(needle, f, ...)
  local taken = (kumo.time.now() - begun).seconds
  assert(taken < seconds, 'it took ' .. taken .. ' s')
end

-- At the top level: what is made here is used by handlers.
local nats = env 'NATS_TOP' and kumo.nats.connect { servers = { 'nats://' .. env 'NATS' }, name = 'top', request_timeout = '15s' }
local rabbit = env 'AMQP_TOP' and kumo.amqp.build_client('amqp://guest:guest@127.0.0.1:' .. env 'AMQP_PORT')

local function amqp(more, connection)
  local options = { routing_key = 'mail', payload = 'text', connection = base.over({ host = '127.0.0.1', port = tonumber(env 'AMQP_PORT') }, connection) }
  return base.over(options, more)
end

local function publish(more, connection)
  return kumo.amqp.basic_publish(amqp(more, connection))
end

kumo.on('init', function()
  base.serve(env 'BROKERS_DIR')
  if nats then
    assert(nats:publish { subject = 'mail.init', payload = 'from init' }.sequence >= 1)
  end
  if rabbit then
    assert(rabbit:publish({ routing_key = 'mail', payload = 'from init' }):wait().status == 'Ack')
  end
end)

kumo.on('the_password', function(tail)
  return 's3' .. tail
end)

kumo.on('the_guest', function()
  return 'guest'
end)

local ACTS = {}

-- NATS

function ACTS.nats_publish()
  local ack = nats:publish { subject = 'mail.a', payload = 'a\0\xff', headers = { ['X-A'] = '1', ['X-B'] = 'two words' } }
  assert(ack.stream == 'MAIL' and ack.sequence > 1 and ack.duplicate == false and ack.domain == '' and ack.value == nil)
  local twice = { subject = 'mail.once', payload = 'once', headers = { ['Nats-Msg-Id'] = 'id-' .. ack.sequence } }
  local first, second = nats:publish(twice), nats:publish(twice)
  assert(not first.duplicate and second.duplicate and first.sequence == second.sequence)
end

function ACTS.nats_once()
  return tostring(nats:publish({ subject = 'mail.later', payload = 'later' }).stream)
end

function ACTS.nats_unheard()
  assert(nats:publish { subject = 'plain', payload = 'not kept', await_ack = false, headers = { ['X-A'] = '1' } } == nil)
end

function ACTS.nats_wrong()
  fails(env 'NATS' .. ' "elsewhere": ', nats.publish, nats, { subject = 'elsewhere', payload = '' })
  fails('no stream found', nats.publish, nats, { subject = 'elsewhere', payload = '' })
  fails('did you mean `subject`', nats.publish, nats, { subjcet = 'a', payload = '' })
  fails('nats:publish: missing field `payload`', nats.publish, nats, { subject = 'a' })
  fails('nats:publish: payload: a table: expected a string', nats.publish, nats, { subject = 'a', payload = {} })
  fails('await_ack: ', nats.publish, nats, { subject = 'a', payload = '', await_ack = 'no' })
  fails('"a b"', nats.publish, nats, { subject = 'a b', payload = '' })
  fails('headers: "X-A": ', nats.publish, nats, { subject = 'mail.a', payload = '', headers = { ['X-A'] = '1\r\nX-B: 2' } })
  fails('max', nats.publish, nats, { subject = 'mail.a', payload = ('x'):rep(2 << 20) })
  fails('did you mean `servers`', kumo.nats.connect, { server = 'a' })
  fails('servers: ', kumo.nats.connect, { servers = 5 })
  fails('servers: `http://a.test`: expected nats://HOST:PORT', kumo.nats.connect, { servers = 'http://me:s3cret@a.test' })
  fails('connection_timeout: ', kumo.nats.connect, { servers = 'nats://me:s3cret@a.test', connection_timeout = 'soon' })
end

function ACTS.nats_away()
  fails_within(5, env 'CLOSED' .. ': ', kumo.nats.connect, { servers = env 'CLOSED' })
  fails('refused', kumo.nats.connect, { servers = 'nats://me:s3cret@' .. env 'CLOSED' })
  fails_within(5, env 'SILENT' .. ': no connection within 300ms', kumo.nats.connect, { servers = env 'SILENT', connection_timeout = 0.3 })
  local later = kumo.nats.connect { servers = env 'SILENT', retry_on_initial_connect = true, request_timeout = '300ms' }
  fails_within(5, 'no acknowledgement within 300ms', later.publish, later, { subject = 'mail.a', payload = '' })
  fails_within(5, 'within 300ms', later.close, later)
end

function ACTS.nats_close()
  local client = kumo.nats.connect { servers = env 'NATS', no_echo = true, retain_servers_order = true, ignore_discovered_servers = true }
  assert(client:publish { subject = 'mail.unheard', payload = 'on its way', await_ack = false } == nil)
  client:close()
  client:close()
  fails('nats:publish: the client was closed', client.publish, client, { subject = 'mail.a', payload = '' })
  local kept
  do
    local short <close> = kumo.nats.connect { servers = env 'NATS', sender_capacity = 1, inbox_prefix = 'mine', ping_interval = '1s' }
    assert(short:publish({ subject = 'mail.closing', payload = '' }).stream == 'MAIL')
    kept = short
  end
  fails('was closed', kept.publish, kept, { subject = 'mail.a', payload = '' })
end

function ACTS.nats_login()
  local function client(password)
    return kumo.nats.connect { servers = env 'NATS', auth = { username = { key_data = 'me' }, password = password } }
  end
  client({ event_name = 'the_password', event_args = { 'cret' } }):close()
  base.write(env 'BROKERS_DIR' .. '/password', 'w', 's3cret\n')
  client(env 'BROKERS_DIR' .. '/password'):close()
  fails(env 'NATS' .. ': authorization violation', client, { key_data = 's3cretX' })
  fails('authorization violation', kumo.nats.connect, { servers = 'nats://me:s3cretX@' .. env 'NATS' })
  fails('authorization violation', kumo.nats.connect, { servers = env 'NATS', auth = { token = { key_data = 's3cret' } } })
  fails('expected { username, password } or { token }', kumo.nats.connect, { servers = env 'NATS', auth = { username = { key_data = 'me' } } })
end

function ACTS.nats_tls()
  local server = 'tls://localhost:' .. env('NATS'):match ':(%d+)'
  local client <close> = kumo.nats.connect { servers = server, certificate = env 'NATS_CA', tls_required = true }
  client:publish { subject = 'mail.secret', payload = '', await_ack = false }
  fails('ertificate', kumo.nats.connect, { servers = server })
  fails('certificates: trust roots', kumo.nats.connect, { servers = server, certificate = { key_data = 'none' } })
  fails('certificates: ', kumo.nats.connect, { servers = server, client_cert = env 'NATS_CA', client_key = { key_data = 'none' } })
end

-- AMQP

function ACTS.amqp_publish()
  local verdict = publish {
    payload = 'a\0\xff',
    app_id = 'app',
    cluster_id = 'cluster',
    content_encoding = 'gzip',
    content_type = 'text/plain',
    correlation_id = 'question 1',
    delivery_mode = 2,
    expiration = 600000,
    headers = { text = 'ü', whole = 7, part = 2.0, yes = true, list = { 'a', 1 }, inner = { b = 'c' } },
    message_id = 'id 1',
    message_type = 'kind',
    priority = 3,
    reply_to = 'answers',
    timestamp = 1700000000,
    user_id = 'guest',
    mandatory = true,
  }
  assert(verdict.status == 'Ack' and verdict.reply_code == nil)
end

function ACTS.amqp_once()
  return publish({ payload = 'once', delivery_mode = 2 }).status
end

function ACTS.amqp_wrong()
  local place = '127.0.0.1:' .. env 'AMQP_PORT'
  fails(place .. ' queue "nowhere": the message came back: 312 NO_ROUTE', publish, { routing_key = 'nowhere', mandatory = true })
  assert(publish({ routing_key = 'nowhere' }).status == 'Ack', 'nobody asked')
  assert(publish({ routing_key = 'full' }).status == 'Ack')
  fails('queue "full": the server did not take it', publish, { routing_key = 'full' })
  fails('exchange "none", key "mail": ', publish, { exchange = 'none' })
  fails('NOT_FOUND', publish, { exchange = 'none' })
  fails('NOT_IMPLEMENTED', publish, { immediate = true })
  fails('user_id', publish, { user_id = 'somebody' })
  fails('routing_key: 256 octets: expected at most 255', publish, { routing_key = ('x'):rep(256) })
  fails('did you mean `routing_key`', publish, { routing_kye = 'mail' })
  fails('priority: ', publish, { priority = 'high' })
  fails('basic_publish: payload: a boolean: expected a string', publish, { payload = true })
  fails('did you mean `password`', publish, {}, { pasword = 'x' })
  fails('connection.port: ', publish, {}, { port = 'x', password = 's3cret' })
  assert(publish({ payload = 'after all that' }).status == 'Ack')
end

function ACTS.amqp_login()
  local guest = { event_name = 'the_guest' }
  assert(publish({}, { username = guest, password = { key_data = 'guest\n' }, vhost = '/', connection_name = 'a', heartbeat = 10 }).status == 'Ack')
  fails(':' .. env 'AMQP_PORT' .. ': ', publish, {}, { password = 's3cret' })
  fails('ACCESS_REFUSED', publish, {}, { password = 's3cret' })
  fails('vhost', publish, {}, { vhost = 'none' })
end

function ACTS.amqp_away()
  local host, port = env('CLOSED'):match '(.*):(%d+)'
  fails_within(5, env 'CLOSED' .. ': ', publish, {}, { host = host, port = tonumber(port) })
  fails('refused', publish, {}, { host = host, port = tonumber(port) })
  host, port = env('SILENT'):match '(.*):(%d+)'
  local silent = { host = host, port = tonumber(port), connect_timeout = 0.3 }
  fails_within(5, env 'SILENT' .. ': no connection within 300ms', publish, {}, silent)
  fails_within(5, env 'SILENT' .. ': no connection within 300ms', kumo.amqp.build_client, 'amqp://' .. env 'SILENT' .. '/?connection_timeout=300')
end

-- Two at once, of whom one waits for the other's place.
function ACTS.amqp_crowd()
  local host, port = env('SILENT'):match '(.*):(%d+)'
  local one_place = { host = host, port = tonumber(port), pool_size = 1, connect_timeout = '3s', wait_timeout = '200ms' }
  local _, why = pcall(publish, {}, one_place)
  return tostring(why):match 'no free connection within 200ms' or tostring(why):match 'no connection within 3s' or tostring(why)
end

function ACTS.amqp_tls()
  local tls = { host = 'localhost', port = tonumber(env 'AMQP_TLS_PORT'), enable_tls = true, root_ca_cert = env 'AMQP_CA' }
  assert(publish({ payload = 'in secret' }, tls).status == 'Ack')
  tls.root_ca_cert = nil
  fails('ertificate', publish, {}, tls)
  fails('corrupt message', publish, {}, { host = 'localhost', port = tonumber(env 'AMQP_PORT'), enable_tls = true })
end

function ACTS.client_publish()
  local confirm = rabbit:publish { routing_key = 'mail', payload = 'a\0\xff' }
  local verdict = confirm:wait()
  assert(verdict.status == 'Ack' and verdict.reply_code == nil and verdict.reply_text == nil)
  assert(confirm:wait().status == 'Ack', 'it is known')
  assert(rabbit:publish_with_timeout({ routing_key = 'mail', payload = 'in time' }, '20s').status == 'Ack')
  assert(rabbit:publish_with_timeout({ routing_key = 'full', payload = '' }, 20).status == 'Ack')
  assert(rabbit:publish({ routing_key = 'full', payload = '' }):wait().status == 'Nack')
  -- More than are remembered.
  for _ = 1, 1100 do
    rabbit:publish { routing_key = 'nowhere', payload = '' }
  end
  confirm = rabbit:publish { routing_key = 'mail', exchange = 'none', payload = '' }
  fails('NOT_FOUND', confirm.wait, confirm)
  assert(rabbit:publish({ routing_key = 'mail', payload = 'after all that' }):wait().status == 'Ack')
  fails('amqp_client:publish: missing field `payload`', rabbit.publish, rabbit, { routing_key = 'mail' })
  fails('did you mean `exchange`', rabbit.publish, rabbit, { routing_key = 'mail', payload = '', exchagne = 'x' })
end

function ACTS.client_once()
  return rabbit:publish({ routing_key = 'mail', payload = 'once' }):wait().status
end

function ACTS.client_close()
  local client = kumo.amqp.build_client('amqp://guest:guest@127.0.0.1:' .. env 'AMQP_PORT')
  local confirm = client:publish { routing_key = 'mail', payload = 'the last' }
  assert(confirm:wait().status == 'Ack')
  client:close()
  fails('amqp_client:close: the client was closed', client.close, client)
  fails('amqp_client:publish: the client was closed', client.publish, client, { routing_key = 'mail', payload = '' })
  local kept
  do
    local short <close> = kumo.amqp.build_client('amqp://127.0.0.1:' .. env 'AMQP_PORT')
    kept = short
  end
  fails('was closed', kept.close, kept)
  fails('ACCESS_REFUSED', kumo.amqp.build_client, 'amqp://guest:s3cret@127.0.0.1:' .. env 'AMQP_PORT')
  fails('expected amqp://USER:PASSWORD@HOST', kumo.amqp.build_client, 'http://me:s3cret@a.test')
end

-- Kafka

local function producer(more)
  return kumo.kafka.build_producer(base.over({ ['bootstrap.servers'] = env 'KAFKA', ['socket.timeout.ms'] = 10000 }, more))
end

function ACTS.kafka_send()
  local p <close> = producer { ['compression.codec'] = 'zstd', ['enable.idempotence'] = false }
  local partition, offset = p:send { topic = 'mail', payload = 'a\0\xff', key = 'k\xff', partition = 2, headers = { a = '1', b = '\xfe' } }
  assert(partition == 2 and offset == 0)
  local again, next = p:send { topic = 'mail', payload = '', partition = 2, timeout = '30s' }
  assert(again == 2 and next == 1)
end

function ACTS.kafka_batch()
  local p = producer { ['compression.codec'] = 'gzip' }
  local failed, errors = p:send_batch {
    { topic = 'batch', payload = 'one', partition = 0 },
    { topic = 'batch', payload = 'two', partition = 99 },
    { topic = 'batch', payload = 'three', partition = 0 },
    { topic = 'batch', payload = ('x'):rep(2 << 20) },
  }
  assert(#failed == 2 and failed[1] == 2 and failed[2] == 4, table.concat(failed, ','))
  assert(#errors == 2 and errors[1]:find('topic "batch": ', 1, true) and errors[1]:find 'nknown partition', errors[1])
  assert(errors[2]:find 'too large', errors[2])
  failed, errors = p:send_batch { { topic = 'batch', payload = 'four', partition = 0 } }
  assert(#failed == 0 and #errors == 0)
  p:close()
  p:close()
  fails('producer:send: the producer was closed', p.send, p, { topic = 'mail', payload = '' })
  fails('producer:send_batch: the producer was closed', p.send_batch, p, {})
end

function ACTS.kafka_wrong()
  fails('no.such.setting: ', producer, { ['no.such.setting'] = 1 })
  fails('build_producer: `acks`: a table: expected a string, a number or a boolean', producer, { acks = {} })
  fails('ssl.ca.location', producer, { ['security.protocol'] = 'ssl', ['ssl.ca.location'] = '/nowhere/ca.pem', ['sasl.password'] = 's3cret' })
  local p <close> = producer()
  fails('producer:send: missing field `payload`', p.send, p, { topic = 'mail' })
  fails('did you mean `topic`', p.send, p, { topik = 'mail', payload = '' })
  fails('partition: ', p.send, p, { topic = 'mail', payload = '', partition = 'x' })
  fails('headers.a: a table', p.send, p, { topic = 'mail', payload = '', headers = { a = {} } })
  fails('message 2: ', p.send_batch, p, { { topic = 'mail', payload = '' }, { topic = 'mail' } })
  local many = {}
  for place = 1, 10001 do
    many[place] = { topic = 'mail', payload = '' }
  end
  fails('a batch of more than 10000 messages', p.send_batch, p, many)
end

local function secure(more)
  return producer(base.over({
    ['security.protocol'] = 'sasl_ssl',
    ['ssl.ca.location'] = env 'KAFKA_CA',
    ['sasl.mechanisms'] = 'SCRAM-SHA-256',
    ['sasl.username'] = 'mail',
    ['sasl.password'] = 's3cret',
    ['message.timeout.ms'] = 20000,
  }, more or {}))
end

function ACTS.kafka_secure()
  local p <close> = secure()
  local partition, offset = p:send { topic = 'secure', payload = 'in private', partition = 0, timeout = '20s' }
  assert(partition == 0 and offset == 0)
end

-- Nobody else is let in, and nothing goes to whom nobody vouches for.
function ACTS.kafka_stranger()
  local message = { topic = 'secure', payload = 'nothing', partition = 0, timeout = '3s' }
  local wrong <close> = secure { ['sasl.password'] = 's3cret2', ['message.timeout.ms'] = 1000 }
  fails('topic "secure": ', wrong.send, wrong, message)
  local other <close> = secure { ['ssl.ca.location'] = env 'KAFKA_OTHER_CA', ['message.timeout.ms'] = 1000 }
  fails('topic "secure": ', other.send, other, message)
  local clear <close> = producer { ['message.timeout.ms'] = 1000 }
  fails('topic "secure": ', clear.send, clear, message)
end

-- The broker is stopped, or there is none.
function ACTS.kafka_away()
  local p = producer { ['message.timeout.ms'] = 1000 }
  fails_within(5, 'topic "mail": no answer within 300ms', p.send, p, { topic = 'mail', payload = '', timeout = '300ms' })
  fails_within(9, 'imed out', p.send, p, { topic = 'mail', payload = '', timeout = '8s' })
  p:close()
end

function ACTS.kafka_once()
  local p <close> = producer()
  return tostring(select(2, p:send { topic = 'once', payload = 'once', partition = 0 }))
end

kumo.on('smtp_server_mail_from', function(sender)
  local ok, said = pcall(ACTS[sender.user])
  kumo.reject(450, not ok and tostring(said) or said or 'as it should be')
end)
