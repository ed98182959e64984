-- The identity that is acted for and the one that has the password are told apart.
--
-- connect tls
-- > EHLO client.test
-- < 250 *
-- > AUTH PLAIN Ym9zcwBzY290dAB0aWdlcg==
-- < 235 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 scott for boss
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_auth_plain', function(authz, authc, password)
  return authc == 'scott' and authz == 'boss' and password == 'tiger'
end)

kumo.on('smtp_server_mail_from', function(_, conn_meta)
  local authn, authz = conn_meta:get_meta 'authn_id', conn_meta:get_meta 'authz_id'
  kumo.reject(550, string.format('5.7.1 %s for %s', authn, authz))
end)
