-- With a handler that knows the password, AUTH under TLS succeeds, and the message says who sent it.
--
-- connect tls
-- > EHLO client.test
-- < 250 * AUTH PLAIN *
-- > AUTH PLAIN AHNjb3R0AHRpZ2Vy
-- < 235 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: mine
-- |
-- | Hello.
-- > .
-- < 250 *
-- arrives
--   header Received: *with ESMTPSA *
-- logged Reception
--   meta.authz_id: scott
--   meta.authn_id: scott
--   meta.tls_protocol_version: TLS*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'auth*', 'tls_protocol_version' } } }
end)

local passwords = { scott = 'tiger' }

kumo.on('smtp_server_auth_plain', function(_, authc, password)
  return passwords[authc] == password
end)

start.deliver()
