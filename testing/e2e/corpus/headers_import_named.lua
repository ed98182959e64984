-- A list names the fields to be imported, those without X- too, and leaves out all others.
--
-- mail a@source.test to b@target.test
-- | X-Other: y
-- | List-Id: news
-- |
-- | Hello.
-- arrives
--   header List-Id: news
-- logged Reception
--   meta.list_id: news
--   meta.x_other: null
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'list_id', 'x_other' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:import_x_headers { 'List-ID' }
end)

start.deliver()
