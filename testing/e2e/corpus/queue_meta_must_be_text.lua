-- A tenant that is no text names no queue: the message is not taken.
--
-- mail a@source.test to b@target.test
-- < 4*
-- logged Rejection
--   response.code: 4*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', { 'acme' })
end)

start.deliver()
