-- A value that is not ASCII is written as an encoded word when that is asked for, and read back decoded.
--
-- mail a@source.test to b@target.test
-- | Subject: plain
-- |
-- | Hello.
-- arrives
--   header X-Colour: =?UTF-8?*?gr=C3=BCn?=
--   header X-Read: 5 octets
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:prepend_header('X-Colour', 'grün', true)
  msg:prepend_header('X-Read', #msg:get_first_named_header_value 'X-Colour' .. ' octets')
end)

start.deliver()
