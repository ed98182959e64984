-- Mail for a domain of ours is taken from anybody, and for no other domain.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@elsewhere.test>
-- < 550 5.7.1 relaying not permitted *
-- > RCPT TO:<b@Ours.test>
-- < 250 *
-- > DATA
-- < 354 *
-- | Subject: for us
-- |
-- | Hello.
-- > .
-- < 250 *
-- arrives
--   to: b@Ours.test
-- logged Rejection
--   recipient: b@elsewhere.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('get_listener_domain', function(domain)
  if domain:lower() == 'ours.test' then
    return kumo.make_listener_domain { relay_to = true }
  end
end)

start.deliver()
