-- Delivers by DNS, to a port of the test's choice: nothing here may reach a real mail exchanger.
--   MX_DIR, MX_PORT
local kumo = require 'kumo'
local DIR = os.getenv 'MX_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_egress_path_config', function(routing_domain)
  return kumo.make_egress_path {
    enable_tls = 'Disabled',
    smtp_port = tonumber(os.getenv 'MX_PORT'),
    connect_timeout = '5s',
    -- the default forbids loopback, where all hosts of these tests are
    prohibited_hosts = routing_domain ~= 'many.test' and {} or nil,
  }
end)
