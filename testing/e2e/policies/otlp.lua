-- Metrics go to a collector too.
--   OTLP_DIR, OTLP_TO (host:port), OTLP_ENDPOINT (a URL), OTLP_TIMEOUT
local kumo = require 'kumo'
local DIR = os.getenv 'OTLP_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.configure_otlp_metrics {
    endpoint = os.getenv 'OTLP_ENDPOINT',
    headers = { ['X-Test'] = 'yes' },
    interval = '1s',
    timeout = os.getenv 'OTLP_TIMEOUT' or '1s',
    attributes = { ['service.name'] = 'mail', team = 'post office' },
  }
  kumo.start_http_listener { listen = '127.0.0.1:0', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'OTLP_TO' } } } },
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
