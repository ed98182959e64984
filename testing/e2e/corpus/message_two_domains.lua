-- A message to recipients of several domains belongs to the queue of the first one's.
--
-- mail a@source.test to list@target.test
-- arrives
--   to: one@first.test, two@second.test
-- logged Reception
--   queue: first.test
--   recipient: ["one@first.test","two@second.test"]
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_recipient { 'one@first.test', 'two@second.test' }
end)

start.deliver()
