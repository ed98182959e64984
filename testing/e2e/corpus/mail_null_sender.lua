-- The null sender is an address whose text is empty.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<>
-- < 550 5.7.1 no reports: "" ""
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(sender)
  kumo.reject(550, string.format('5.7.1 no reports: %q %q', sender.email, tostring(sender)))
end)
