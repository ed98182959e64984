-- A sender can be refused; another is taken on the same connection.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<spam@bad.test>
-- < 550 5.7.1 nothing from bad.test
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- logged Rejection
--   response.code: 550
--   sender: spam@bad.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(sender)
  if sender.domain == 'bad.test' then
    kumo.reject(550, '5.7.1 nothing from ' .. sender.domain)
  end
end)
