-- What a field holds in base64 is read, and written in another alphabet.
--
-- mail a@source.test to b@target.test
-- | X-Blob: eyJpZCI6IDd9
-- |
-- | Hello.
-- arrives
--   header X-Id: 7
--   header X-Hex: 7b226964223a20377d
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local blob = kumo.encode.base64_decode(msg:get_first_named_header_value 'X-Blob')
  msg:append_header('X-Id', tostring(kumo.serde.json_parse(blob).id))
  msg:append_header('X-Hex', kumo.encode.hex_encode(blob))
end)

start.deliver()
