-- kumo.disconnect says its reply and hangs up, whatever the code.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 enough
-- closed
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  kumo.disconnect(550, '5.7.1 enough')
end)
