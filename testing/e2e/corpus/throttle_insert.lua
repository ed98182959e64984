-- A throttle of the script delays the second message of a sender, before it is ready.
--
-- mail a@source.test to one@target.test
-- emptied
-- mail a@source.test to two@target.test
-- mail z@source.test to three@target.test
-- arrives
--   to: one@target.test
-- arrives
--   to: three@target.test
-- logged Delayed
--   recipient: two@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('throttle_insert_ready_queue', function(msg)
  local throttle = kumo.make_throttle('sender-' .. msg:sender().email, '1/hour')
  throttle:delay_message_if_throttled(msg)
end)

start.deliver()
