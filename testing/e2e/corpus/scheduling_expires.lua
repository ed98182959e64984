-- A message with a time of its own to expire is not kept for the queue's.
--
-- remote sink
--   . => 451 4.3.0 busy
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
-- logged Expiration
--   recipient: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_scheduling { expires = (kumo.time.now() + kumo.time.parse_duration '10 minutes').rfc3339 }
end)

start.deliver()
