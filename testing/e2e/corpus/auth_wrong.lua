-- A handler that says no refuses AUTH; the client may try again.
--
-- connect tls
-- > EHLO client.test
-- < 250 *
-- > AUTH PLAIN AHNjb3R0AHdyb25n
-- < 535 5.7.8 AUTH invalid
-- > AUTH PLAIN AHNjb3R0AHRpZ2Vy
-- < 235 *
-- logged Rejection
--   response.code: 535
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_auth_plain', function(_, authc, password)
  return authc == 'scott' and password == 'tiger'
end)
