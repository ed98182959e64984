-- Of two recipients of one message the server refuses one: each has an outcome of his own.
--
-- remote sink
--   RCPT TO:<gone@ => 550 5.1.1 no such user
-- mail a@source.test to gone@target.test here@target.test
-- arrives
--   to: here@target.test
-- logged Reception
--   recipient: ["gone@target.test","here@target.test"]
-- logged Bounce
--   recipient: gone@target.test
--   response.code: 550
--   response.content: no such user
--   response.command: RCPT TO:<gone@target.test>*
-- logged Delivery
--   recipient: here@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { batch_handling = 'BatchByDomain' } } }
end)

start.deliver()
