-- The helper follows a scheduling header and removes it.
--
-- mail a@source.test to b@target.test
-- | X-When: {"first_attempt": "2099-01-01T00:00:00Z"}
-- |
-- | Hello.
-- logged Reception
--   headers: {}
-- logged Delayed
--   recipient: b@target.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve { logs = { headers = { 'X-When' } } }
end)

local queue_helper = queue_module:setup { { scheduling_header = 'X-When' } }

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)
