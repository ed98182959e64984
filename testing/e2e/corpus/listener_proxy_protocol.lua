-- Behind a proxy the client is whom the proxy names, before the greeting.
--
-- connect silent
-- | PROXY TCP4 192.0.2.7 198.51.100.1 4321 25
-- < 220 *
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: by proxy
-- |
-- | Hello.
-- > .
-- < 250 *
-- arrives
--   header Received: *192.0.2.7*
-- logged Reception
--   meta.received_from: 192.0.2.7:4321
--   meta.orig_received_from: 127.0.0.1:*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = { { require_proxy_protocol = true, relay_hosts = { '192.0.2.7' } } },
    logs = { meta = { 'received_from', 'orig_received_from' } },
  }
end)

start.deliver()
