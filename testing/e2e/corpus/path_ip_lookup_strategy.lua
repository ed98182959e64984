-- Which addresses of a host are tried is for the path to say.
--
-- mail a@source.test to b@four.test
-- mail a@source.test to b@six.test
-- arrives
--   to: b@four.test
-- logged TransientFailure
--   recipient: b@six.test
--   response.content: *::1*
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

local PORT = tonumber(start.address('sink'):match ':(%d+)$')

kumo.on('init', function()
  local hosts = '300 IN MX 10 mx\nmx 300 IN A 127.0.0.1\nmx 300 IN AAAA ::1\n'
  kumo.dns.configure_test_resolver { '$ORIGIN four.test.\n@ ' .. hosts, '$ORIGIN six.test.\n@ ' .. hosts }
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function(domain)
  return start.path {
    smtp_port = PORT,
    ip_lookup_strategy = domain == 'four.test' and 'Ipv4Only' or 'Ipv6Only',
  }
end)
