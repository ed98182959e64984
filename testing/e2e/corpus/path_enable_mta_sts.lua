-- A path that pays no heed to MTA-STS delivers in clear to a domain that forbids it; any other does not.
--
-- mail a@source.test to b@heedless.test
-- mail a@source.test to b@heeds.test
-- arrives
--   to: b@heedless.test
-- logged TransientFailure
--   recipient: b@heeds.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

local PORT = tonumber(start.address('sink'):match ':(%d+)$')

kumo.on('init', function()
  local zones, policies = {}, {}
  for _, domain in ipairs { 'heedless.test', 'heeds.test' } do
    table.insert(zones, '$ORIGIN ' .. domain .. '.\n@ 300 IN MX 10 mx\nmx 300 IN A 127.0.0.1\n_mta-sts 300 IN TXT "v=STSv1; id=1"\n')
    policies[domain] = 'version: STSv1\nmode: enforce\nmx: mx.' .. domain .. '\nmax_age: 86400\n'
  end
  kumo.dns.configure_test_resolver(zones)
  kumo.dns.configure_test_mta_sts(policies)
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function(domain)
  return start.path { smtp_port = PORT, enable_tls = 'Opportunistic', enable_mta_sts = domain ~= 'heedless.test' }
end)
