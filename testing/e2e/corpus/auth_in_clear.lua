-- Passwords are not taken in clear, whatever the handler would say.
--
-- > EHLO client.test
-- < 250 *
-- > AUTH PLAIN AHNjb3R0AHRpZ2Vy
-- < 524 5.7.11 *
-- logged Rejection
--   response.code: 524
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_auth_plain', function()
  return true
end)
