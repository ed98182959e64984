-- production.lua, unchanged, where mail is sent to: names of the test's own, and a port nobody has to be root for.
--   RELAY_DIR, POLICY_DIR as there; SINK_PORT
local kumo = require 'kumo'

local make_egress_source = kumo.make_egress_source
kumo.make_egress_source = function(options)
  local here = { remote_port = tonumber(os.getenv 'SINK_PORT') }
  for name, value in pairs(options) do
    here[name] = value
  end
  return make_egress_source(here)
end

kumo.dns.configure_test_resolver {
  zones = {
    '$ORIGIN sink.test.\n@ 60 MX 10 mx.sink.test.\nmx 60 A 127.0.0.1\n',
  },
}

dofile(os.getenv 'POLICY_DIR' .. '/production.lua')
