-- A list of recipients makes one message to several.
--
-- mail a@source.test to list@target.test
-- arrives
--   to: one@target.test, two@target.test
-- logged Reception
--   recipient: ["one@target.test","two@target.test"]
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  if msg:recipient().user == 'list' then
    msg:set_recipient { 'one@target.test', 'two@target.test' }
  end
end)

start.deliver()
