-- The local part of an address comes without its quotes, and the address as it was.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<"john doe"@Source.test>
-- < 550 5.7.1 [john doe] [Source.test] ["john doe"@Source.test]
-- logged Rejection
--   sender: "john doe"@Source.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(sender)
  kumo.reject(550, string.format('5.7.1 [%s] [%s] [%s]', sender.user, sender.domain, sender.email))
end)
