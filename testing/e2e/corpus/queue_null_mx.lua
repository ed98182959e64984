-- A domain that says it takes no mail bounces at once; one that does not exist is asked for again.
--
-- mail a@source.test to b@null.test
-- mail a@source.test to b@none.test
-- logged Bounce
--   recipient: b@null.test
--   response.code: 556
-- logged TransientFailure
--   recipient: b@none.test
--   response.code: 451
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.dns.configure_test_resolver { '$ORIGIN null.test.\n@ 300 IN MX 0 .\n' }
  start.serve()
end)
