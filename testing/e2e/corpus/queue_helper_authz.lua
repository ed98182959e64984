-- A tenant may be for users who authenticated, and then for some of them.
--
-- mail a@source.test to b@target.test
-- | X-Tenant: acme
-- |
-- | Hello.
-- < 500 tenant 'acme' requires SMTP AUTH*
-- connect tls
-- > EHLO client.test
-- < 250 *
-- > AUTH PLAIN AHNjb3R0AHRpZ2Vy
-- < 235 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | X-Tenant: acme
-- |
-- | Hello.
-- > .
-- < 500 tenant 'acme' is not authorized *
-- logged Rejection
--   response.content: *requires SMTP AUTH*
-- logged Rejection
--   response.content: *not authorized*
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  { tenant_header = 'X-Tenant', tenant = { acme = { require_authz = { 'somebody-else' } } } },
}

kumo.on('smtp_server_auth_plain', function()
  return true
end)

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)
