-- A code that is no refusal cannot be one: the handler fails.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 421 4.3.0 *
-- closed
-- logged Rejection
--   response.code: 421
-- stderr: *reject*250*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  kumo.reject(250, 'not a refusal')
end)
