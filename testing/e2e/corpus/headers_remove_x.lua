-- Without names all X- fields go; with names those that are listed.
--
-- mail a@source.test to all@target.test one@target.test
-- | X-One: 1
-- | Subject: kept
-- | X-Two: 2
-- |
-- | Hello.
-- arrives
--   to: all@target.test
--   no header X-One
--   no header X-Two
--   header Subject: kept
-- arrives
--   to: one@target.test
--   no header X-One
--   header X-Two: 2
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:remove_x_headers(msg:recipient().user == 'one' and { 'x-one' } or nil)
end)

start.deliver()
