-- Content above the limit is refused when it is over, and the connection stays good.
--
-- > EHLO client.test
-- < 250 * SIZE 100 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: more than a hundred octets
-- |
-- | 1 ......................................
-- | 2 ......................................
-- | 3 ......................................
-- > .
-- < 552 5.3.4 message too big
-- > MAIL FROM:<a@source.test> SIZE=101
-- < 552 5.3.4 *
-- > NOOP
-- < 250 *
-- logged Rejection
--   response.code: 552
--   response.content: message too big
-- logged Rejection
--   response.code: 552
--   response.command: MAIL FROM:*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { max_message_size = 100 } } }
end)
