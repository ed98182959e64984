-- A token that the sender's application made proves where a message is from.
--
-- mail a@source.test to b@target.test
-- | X-Token: 2e26173ec9701c3ab2a404de408608bf7560d59e4da72a7ceb17c4b814d83f71
-- |
-- | Hello.
-- mail a@source.test to c@target.test
-- | X-Token: 2e26173ec9701c3ab2a404de408608bf7560d59e4da72a7ceb17c4b814d83f71
-- |
-- | Hello.
-- < 550 5.7.1 not for c@target.test
-- arrives
--   to: b@target.test
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local from, to = msg:sender().email, msg:recipient().email
  local expected = kumo.digest.hmac_sha256({ key_data = 'swordfish' }, from .. ' ' .. to).hex
  if msg:get_first_named_header_value 'X-Token' ~= expected then
    kumo.reject(550, '5.7.1 not for ' .. to)
  end
end)

start.deliver()
