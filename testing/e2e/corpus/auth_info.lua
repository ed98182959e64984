-- AUTH may be answered with an account of identities, one of which is whom the message is for.
--
-- connect tls
-- > EHLO client.test
-- < 250 *
-- > AUTH PLAIN
-- < 334
-- > AHNjb3R0AHRpZ2Vy
-- < 235 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 the-department
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_auth_plain', function()
  return { identities = { { identity = 'the-department', context = 'SmtpAuthPlainAuthorization' } }, groups = {} }
end)

kumo.on('smtp_server_mail_from', function(_, conn_meta)
  kumo.reject(550, '5.7.1 ' .. conn_meta:get_meta 'authz_id')
end)
