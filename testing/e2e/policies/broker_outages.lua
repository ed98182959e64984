-- A relay that tells a broker of each message's coming and going by a log hook, whether the broker is there or not.
--   OUTAGE_DIR, OUTAGE_SINK: where mail goes
--   OUTAGE_LISTEN: a place of its own for a listener that must come back there
--   OUTAGE_KIND, OUTAGE_AT: `amqp`, `nats`, `redis` or `webhook`, and HOST:PORT of it
--   OUTAGE_BATCH, OUTAGE_CONNECTIONS: other than what is below, for measuring
local kumo = require 'kumo'
local redis = require 'redis'
local base = require 'base'
local log_hooks = require 'policy-extras.log_hooks'
local env = os.getenv
local AT = env 'OUTAGE_AT' or '127.0.0.1:1'
local BATCH = env 'OUTAGE_BATCH'
local CONNECTIONS = tonumber(env 'OUTAGE_CONNECTIONS' or '1')
local HOST, PORT = AT:match '(.*):(%d+)'

-- Each makes a connection object; what fails in there is an error like any other, or said to be for now.
local CONNECT = {}

-- One at a time; the pool of connections is the program's.
function CONNECT.amqp()
  local broker = { host = HOST, port = tonumber(PORT), connect_timeout = '2s' }
  local connection = {}
  function connection:send(message)
    local event = { routing_key = 'events', mandatory = true, delivery_mode = 2, payload = message:get_data(), connection = broker }
    return kumo.amqp.basic_publish(event).status
  end
  return connection
end

-- Connected at once: a broker that is away is a failure to connect.
function CONNECT.nats()
  local client = kumo.nats.connect { servers = 'nats://' .. AT, connection_timeout = '2s', request_timeout = '1s' }
  local connection = {}
  function connection:send_batch(messages)
    for _, message in ipairs(messages) do
      client:publish { subject = 'events', payload = message:get_data() }
    end
    return tostring(#messages)
  end
  function connection:close()
    client:close()
  end
  return connection
end

function CONNECT.redis()
  local client = redis.open { node = 'redis://' .. AT .. '/', connect_timeout = '2s', response_timeout = '2s' }
  local connection = {}
  function connection:send_batch(messages)
    for _, message in ipairs(messages) do
      client:query('XADD', 'events', '*', 'record', message:get_data())
    end
    return tostring(#messages)
  end
  return connection
end

-- A list of lines a request, and 451 is what is made of every failure.
function CONNECT.webhook()
  local client = kumo.http.build_client { timeout = '30s' }
  local connection = {}
  function connection:send_batch(messages)
    local lines = {}
    for number, message in ipairs(messages) do
      lines[number] = message:get_data()
    end
    local request = client:post('http://' .. AT .. '/hook'):header('Content-Type', 'application/x-ndjson')
    local ok, response = pcall(request.send, request:body(table.concat(lines)))
    if not ok or not response:status_is_success() then
      kumo.reject(451, ok and 'status ' .. response:status_code() or tostring(response))
    end
    return tostring(#messages)
  end
  function connection:close()
    client:close()
  end
  return connection
end

if env 'OUTAGE_KIND' then
  log_hooks:new {
    name = 'events',
    constructor = CONNECT[env 'OUTAGE_KIND'],
    batch_size = tonumber(BATCH or (env 'OUTAGE_KIND' == 'amqp' and 1 or 20)),
    max_batch_latency = BATCH and '200ms',
    queue_config = { retry_interval = '1s', max_retry_interval = '1s' },
    log_parameters = {
      headers = { 'X-Postrider-Id' },
      per_record = { Reception = {}, Delivery = {}, Any = { enable = false } },
    },
  }
end

kumo.on('init', function()
  base.serve(env 'OUTAGE_DIR', {
    esmtp = { { listen = env 'OUTAGE_LISTEN' } },
    -- Of a hook's message, which record it is.
    logs = { meta = not BATCH and { 'log_record' } or nil },
  })
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(env 'OUTAGE_SINK') }
end)

-- One connection to the broker, so that nothing is overtaken by another, unless it is measured.
kumo.on('get_egress_path_config', function(routing_domain)
  return base.path { connection_limit = routing_domain == 'events.log_hook' and CONNECTIONS or 32 }
end)
