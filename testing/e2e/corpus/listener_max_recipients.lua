-- One recipient too many of a transaction is put off; the others get the mail.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<one@target.test>
-- < 250 *
-- > RCPT TO:<two@target.test>
-- < 250 *
-- > RCPT TO:<three@target.test>
-- < 452 4.5.3 *
-- > DATA
-- < 354 *
-- | Subject: for two
-- |
-- | Hello.
-- > .
-- < 250 *
-- arrives
--   to: one@target.test
-- arrives
--   to: two@target.test
-- logged Rejection
--   response.code: 452
--   recipient: three@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { max_recipients_per_message = 2 } } }
end)

start.deliver()
