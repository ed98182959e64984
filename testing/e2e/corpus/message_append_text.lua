-- Plain text gets its footer at the end, HTML before the end of its body, each in its own part.
--
-- mail a@source.test to b@target.test
-- | Content-Type: multipart/alternative; boundary=line
-- |
-- | --line
-- | Content-Type: text/plain
-- |
-- | Hello.
-- | --line
-- | Content-Type: text/html
-- |
-- | <html><body><p>Hello.</p></body></html>
-- | --line--
-- arrives
--   body: *Hello. / -- plain footer*<p>Hello.</p><p>html footer</p></body></html>*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:append_text_plain '-- plain footer\r\n'
  msg:append_text_html '<p>html footer</p>'
end)

start.deliver()
