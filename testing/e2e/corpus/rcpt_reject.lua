-- A recipient that policy rejects does not take the others of its transaction with it.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<gone@target.test>
-- < 550 5.1.1 no such user
-- > RCPT TO:<here@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: for one
-- |
-- | Hello.
-- > .
-- < 250 OK ids=*
-- arrives
--   from: a@source.test
--   to: here@target.test
--   body: Hello.
-- logged Rejection
--   response.code: 550
--   response.content: no such user
--   sender: a@source.test
--   recipient: gone@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_rcpt_to', function(recipient)
  if recipient.user == 'gone' then
    kumo.reject(550, '5.1.1 no such user')
  end
end)

start.deliver()
