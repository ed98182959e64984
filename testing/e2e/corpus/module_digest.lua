-- A hash of the recipient shares mail among tenants, the same each time.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Reception
--   queue: bucket-5@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local digest = kumo.digest.sha256('user@', msg:recipient().domain)
  assert(digest.hex == tostring(digest) and #digest.bytes == 32)
  msg:set_meta('tenant', 'bucket-' .. digest.hex:sub(1, 1))
end)

start.deliver()
