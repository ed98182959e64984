-- Mail without an author cannot be signed and is refused.
--
-- mail a@source.test to b@target.test
-- | Subject: from nobody
-- |
-- | Hello.
-- < 552 5.6.0 *From*
-- logged Rejection
--   response.code: 552
local kumo = require 'kumo'
local start = require 'start'

local dkim_sign = require 'policy-extras.dkim_sign'

kumo.on('init', function()
  start.serve()
end)

local sign = dkim_sign:setup { { base = { selector = 's', headers = { 'From' } } } }

kumo.on('smtp_server_message_received', function(msg)
  sign(msg)
end)
