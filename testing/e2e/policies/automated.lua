-- A node whose traffic a daemon shapes. Mail to *.CODE.test goes to the server of that code; the tenant is the sender's user.
--   AUTOMATED_DIR, AUTOMATED_TSA (url), AUTOMATED_RULES, AUTOMATED_451, AUTOMATED_452, AUTOMATED_550 (host:port)
--   AUTOMATED_ALL: all records but bounces are published, not only those that rules mean
local kumo = require 'kumo'
local base = require 'base'
local shaping = require 'policy-extras.shaping'

local URL = os.getenv 'AUTOMATED_TSA'
local shaper = shaping:setup_with_automation {
  no_default_files = true,
  extra_files = { os.getenv 'AUTOMATED_RULES' },
  publish = { URL },
  subscribe = { URL },
  cache_ttl = '1 second',
  publish_timeout = '20 seconds',
  tsa_queue_config = { retry_interval = '2s' },
  pre_filter = not os.getenv 'AUTOMATED_ALL',
  additional_skip_log_record_types = os.getenv 'AUTOMATED_ALL' and { 'Bounce' } or nil,
}

kumo.on('init', function()
  base.serve(os.getenv 'AUTOMATED_DIR')
  shaper.setup_publish()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', msg:sender().user)
end)

kumo.on('get_queue_config', function(domain)
  local code = domain:match '(%d+)%.test$'
  local protocol = base.to_host(os.getenv('AUTOMATED_' .. code), code .. '.test')
  return kumo.make_queue_config { protocol = protocol, retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', shaper.get_egress_path_config)
