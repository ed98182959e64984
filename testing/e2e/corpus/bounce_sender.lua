-- A sender that the server refuses bounces the message for all its recipients.
--
-- remote sink
--   MAIL FROM: => 553 5.1.8 no such sender
-- mail a@source.test to b@target.test
-- logged Bounce
--   response.code: 553
--   response.command: MAIL FROM:<a@source.test>*
--   peer_address.addr: 127.0.0.1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

start.deliver()
