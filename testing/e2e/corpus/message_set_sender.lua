-- The envelope's sender can be changed, by text or by an address, and so can it be emptied.
--
-- mail a@source.test to text@target.test none@target.test
-- arrives
--   to: text@target.test
--   from: bounce@source.test
-- arrives
--   to: none@target.test
--   mail: MAIL FROM:<>*
-- logged Delivery
--   recipient: text@target.test
--   sender: bounce@source.test
-- logged Delivery
--   recipient: none@target.test
--   sender:
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_sender(msg:recipient().user == 'none' and '' or 'bounce@' .. msg:sender().domain)
end)

start.deliver()
