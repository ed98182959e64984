-- One smart host for all domains; limits of queue and path by what the environment says.
--   CLUSTER_DIR, CLUSTER_TO (host:port), CLUSTER_REDIS (URL), CLUSTER_SHARE (while it is away), CLUSTER_TIMEOUT
--   CLUSTER_QUEUE, CLUSTER_PATH: what Lua takes for the inside of a table
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'CLUSTER_DIR'

kumo.on('init', function()
  base.serve(DIR)
  kumo.configure_redis_throttles {
    node = os.getenv 'CLUSTER_REDIS',
    response_timeout = os.getenv 'CLUSTER_TIMEOUT' or '500ms',
    share_while_away = tonumber(os.getenv 'CLUSTER_SHARE'),
  }
end)

kumo.on('get_queue_config', function()
  local config = base.table_of(os.getenv 'CLUSTER_QUEUE')
  config.protocol = base.to_host(os.getenv 'CLUSTER_TO')
  config.retry_interval = '1h'
  return kumo.make_queue_config(config)
end)

kumo.on('get_egress_path_config', function()
  return base.path(base.table_of(os.getenv 'CLUSTER_PATH'))
end)
