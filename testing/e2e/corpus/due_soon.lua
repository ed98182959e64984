-- A message goes when it is due.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Due: later
-- logged Delayed
--   recipient: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:append_header('X-Due', 'later')
  msg:set_due((kumo.time.now() + kumo.time.parse_duration '4s').rfc3339)
end)

start.deliver()
