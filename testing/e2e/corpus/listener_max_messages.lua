-- A connection takes so many recipients; a transaction that begins behind them ends it.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<one@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: the only one
-- |
-- | Hello.
-- > .
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<two@target.test>
-- < 421 4.5.3 *
-- closed
-- arrives
--   to: one@target.test
-- logged Rejection
--   response.code: 421
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { max_messages_per_connection = 1 } } }
end)

start.deliver()
