-- Octets in an old character set are made readable.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 grün 4 8
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  local text = kumo.encode.charset_decode('iso-8859-1', 'gr\xfcn')
  kumo.reject(550, string.format('5.7.1 %s %d %d', text, #kumo.encode.charset_encode('windows-1252', text), #kumo.encode.charset_encode('utf-16be', text)))
end)
