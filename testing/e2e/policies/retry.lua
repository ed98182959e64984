-- One smart host, a fixed retry interval, a log segment a second.
--   RETRY_DIR, RETRY_TO (host:port), RETRY_EVERY (duration)
local kumo = require 'kumo'
local DIR = os.getenv 'RETRY_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'RETRY_TO' } } } },
    retry_interval = os.getenv 'RETRY_EVERY',
    max_retry_interval = os.getenv 'RETRY_EVERY',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
