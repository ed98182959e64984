-- A scheduling header says when a message is tried first, and does not leave with it.
--
-- mail a@source.test to later@target.test
-- | X-Schedule: {"first_attempt": "2099-01-01T00:00:00Z"}
-- | Subject: later
-- |
-- | Hello.
-- mail a@source.test to now@target.test
-- | X-Schedule: {"first_attempt": "2001-01-01T00:00:00Z"}
-- | Subject: now
-- |
-- | Hello.
-- arrives
--   to: now@target.test
--   no header X-Schedule
-- logged Delayed
--   recipient: later@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:import_scheduling_header('X-Schedule', true)
end)

start.deliver()
