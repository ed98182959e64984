-- Any field can be read as addresses; one that is not there is nil.
--
-- mail a@source.test to b@target.test
-- | To: b@target.test, undisclosed <c@target.test>
-- |
-- | Hello.
-- < 550 5.7.1 2 in To, undisclosed, no Cc
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local to = msg:to_header().list
  local cc = msg:get_address_header 'Cc'
  kumo.reject(550, string.format('5.7.1 %d in To, %s, %s Cc', #to, to[2].name, cc and 'a' or 'no'))
end)
