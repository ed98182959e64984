-- Two listeners differ in name and in who may relay; metadata tell through which one a message came.
--
-- connect 2
-- < 220 inside.test *
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: from inside
-- |
-- | Hello.
-- > .
-- < 250 *
-- connect 1
-- < 220 outside.test *
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 *
-- arrives
--   header Received: *by inside.test *
-- logged Reception
--   meta.hostname: inside.test
--   meta.reception_protocol: ESMTP
--   meta.ehlo_domain: client.test
--   meta.received_from: 127.0.0.1:*
--   meta.received_via: 127.0.0.1:*
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = { { hostname = 'outside.test', relay_hosts = {} }, { hostname = 'inside.test' } },
    logs = { meta = { 'hostname', 'reception_protocol', 'ehlo_domain', 'received_*' } },
  }
end)

start.deliver()
