-- Policy may write the whole content anew.
--
-- mail a@source.test to b@target.test
-- | Subject: secret
-- |
-- | Secret.
-- arrives
--   header Subject: replaced
--   body: Nothing to see.
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_data 'Subject: replaced\r\n\r\nNothing to see.\r\n'
end)

start.deliver()
