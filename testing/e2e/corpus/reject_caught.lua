-- A rejection can be caught, reads as code and text, and is a rejection again when raised again.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 451 4.7.1 later
-- logged Rejection
--   response.code: 451
-- stderr: *caught 451 4.7.1 later*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  local ok, why = pcall(kumo.reject, 451, '4.7.1 later')
  kumo.log_warn('caught', why)
  error(why)
end)
