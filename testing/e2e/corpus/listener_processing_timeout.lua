-- A message that policy takes too long about is put off.
--
-- mail a@source.test to b@target.test
-- < 451 4.4.5 data_processing_timeout exceeded *
-- logged Rejection
--   response.code: 451
-- unlogged Reception
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { data_processing_timeout = '1s' } } }
end)

kumo.on('smtp_server_message_received', function()
  kumo.sleep(3)
end)

start.deliver()
