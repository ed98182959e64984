-- An operator's order bounces what is queued, with his reason.
--
-- mail a@source.test to later@target.test
-- http POST /api/admin/bounce/v1
-- | {"domain": "target.test", "reason": "wrong list"}
-- < 200 *
-- logged AdminBounce
--   recipient: later@target.test
--   response.content: *wrong list*
-- logged Delayed
--   recipient: later@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_due((kumo.time.now() + kumo.time.parse_duration '1 day').rfc3339)
end)

start.deliver()
