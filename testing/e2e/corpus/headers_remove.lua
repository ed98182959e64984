-- Every field of a name goes, in any case of letters, and no other.
--
-- mail a@source.test to b@target.test
-- | X-Secret: 1
-- | Subject: kept
-- | x-secret: 2
-- | X-Secrets: kept
-- |
-- | Hello.
-- arrives
--   no header X-Secret
--   header X-Secrets: kept
--   header Subject: kept
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:remove_all_named_headers 'X-SECRET'
end)

start.deliver()
