-- The filter's event decides what is logged.
--
-- mail a@source.test to keep@target.test drop@target.test
-- arrives
--   to: keep@target.test
-- arrives
--   to: drop@target.test
-- logged Reception
--   recipient: keep@target.test
-- logged Delivery
--   recipient: keep@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { filter_event = 'is_of_interest' } }
end)

kumo.on('is_of_interest', function(msg)
  return msg:recipient().user == 'keep'
end)

start.deliver()
