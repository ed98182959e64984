-- A rejection of one message of a transaction rejects them all.
--
-- mail a@source.test to one@target.test two@target.test
-- < 550 5.7.1 not for two@target.test
-- logged Rejection
--   response.code: 550
-- unlogged Reception
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  if msg:recipient().user == 'two' then
    kumo.reject(550, '5.7.1 not for ' .. msg:recipient().email)
  end
end)

start.deliver()
