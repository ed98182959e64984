-- A message that is due tomorrow waits, and another does not.
--
-- mail a@source.test to later@target.test now@target.test
-- arrives
--   to: now@target.test
-- logged Delayed
--   recipient: later@target.test
--   response.content: *ScheduledForLater*
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  if msg:recipient().user == 'later' then
    local tomorrow = kumo.time.now() + kumo.time.parse_duration '1 day'
    msg:set_due(tomorrow.rfc3339)
  end
end)

start.deliver()
