-- One smart host for all domains; limits of queue and path by what the environment says.
--   CLUSTER_DIR, CLUSTER_TO (host:port), CLUSTER_REDIS (URL), CLUSTER_SHARE (while it is away)
--   CLUSTER_QUEUE, CLUSTER_PATH: what Lua takes for the inside of a table
local kumo = require 'kumo'
local DIR = os.getenv 'CLUSTER_DIR'

local function options(name)
  return assert(load('return {' .. (os.getenv(name) or '') .. '}'))()
end

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
  kumo.configure_redis_throttles {
    node = os.getenv 'CLUSTER_REDIS',
    response_timeout = '500ms',
    share_while_away = tonumber(os.getenv 'CLUSTER_SHARE'),
  }
end)

kumo.on('get_queue_config', function()
  local config = options 'CLUSTER_QUEUE'
  config.protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'CLUSTER_TO' } } } }
  config.retry_interval = '1h'
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function()
  local config = options 'CLUSTER_PATH'
  config.enable_tls = 'Disabled'
  config.prohibited_hosts = {}
  return kumo.make_egress_path(config)
end)
