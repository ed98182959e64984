-- With BatchByDomain the recipients of one domain, in any case of letters, share a message.
--
-- mail a@source.test to one@target.test two@TARGET.test three@other.test
-- arrives
--   to: one@target.test, two@TARGET.test
-- arrives
--   to: three@other.test
-- logged Reception
--   queue: target.test
--   recipient: ["one@target.test","two@TARGET.test"]
-- logged Reception
--   queue: other.test
--   recipient: three@other.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { batch_handling = 'BatchByDomain' } } }
end)

start.deliver()
