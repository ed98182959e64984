-- A changed copy of the MIME tree is given back as content.
--
-- mail a@source.test to b@target.test
-- | Subject: before
-- | Content-Transfer-Encoding: base64
-- |
-- | SGVsbG8u
-- arrives
--   header Subject: [Hello.] after
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local part = msg:parse_mime()
  part.headers:set_subject('[' .. part.body .. '] after')
  msg:set_data(tostring(part))
end)

start.deliver()
