-- Mail that has been through too many servers is refused by the number of its Received fields.
--
-- mail a@source.test to b@target.test
-- | Received: from one
-- | Received: from two
-- | Received: from three
-- |
-- | Hello.
-- < 554 5.4.6 4 hops are too many
-- logged Rejection
--   response.code: 554
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local hops = #msg:get_all_named_header_values 'received'
  if hops > 3 then
    kumo.reject(554, string.format('5.4.6 %d hops are too many', hops))
  end
end)
