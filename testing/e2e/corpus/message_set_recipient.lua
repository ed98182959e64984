-- Another recipient takes the message to the queue of his domain.
--
-- mail a@source.test to old@old.test
-- arrives
--   to: new@new.test
-- logged Reception
--   recipient: new@new.test
--   queue: new.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_recipient('new@new.test')
end)

start.deliver()
