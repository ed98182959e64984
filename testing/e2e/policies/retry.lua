-- One smart host, a fixed retry interval, a log segment a second.
--   RETRY_DIR, RETRY_TO (host:port), RETRY_EVERY (duration)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'RETRY_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'RETRY_TO'),
    retry_interval = os.getenv 'RETRY_EVERY',
    max_retry_interval = os.getenv 'RETRY_EVERY',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
