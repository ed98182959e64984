-- Delivers by DNS, to a port of the test's choice: nothing here may reach a real mail exchanger.
--   MX_DIR, MX_PORT
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'MX_DIR'

kumo.on('init', function()
  base.serve(DIR)
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
