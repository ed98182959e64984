-- X- fields are copied into metadata under names in lower case with underscores.
--
-- mail a@source.test to b@target.test
-- | X-Campaign-Id: spring
-- | X-Other: y
-- | Subject: kept
-- |
-- | Hello.
-- arrives
--   header X-Campaign-Id: spring
-- logged Reception
--   meta.x_campaign_id: spring
--   meta.x_other: y
--   meta.subject: null
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'x_*', 'subject' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:import_x_headers()
end)

start.deliver()
