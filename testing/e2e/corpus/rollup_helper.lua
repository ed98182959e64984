-- Mail for domains whose exchangers are one provider's goes by one routing domain.
--
-- mail a@source.test to b@hosted.test c@own.test
-- arrives
--   to: b@hosted.test
-- arrives
--   to: c@own.test
-- logged Delivery
--   queue: hosted.test!provider.test
-- logged Delivery
--   queue: own.test
local kumo = require 'kumo'
local start = require 'start'

local rollup = require 'policy-extras.rollup'

kumo.on('init', function()
  kumo.dns.configure_test_resolver {
    '$ORIGIN hosted.test.\n@ 300 IN MX 10 mx1.provider.test.\n@ 300 IN MX 20 mx2.provider.test.\n',
    '$ORIGIN own.test.\n@ 300 IN MX 10 mx1.provider.test.\n@ 300 IN MX 20 mx.own.test.\n',
  }
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  rollup.reroute_based_on_mx_host_suffix(msg, { ['.provider.test.'] = 'provider.test' })
end)

start.deliver()
