-- Somebody who only sends as a domain may not receive for it.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@x.test>
-- < 250 *
-- > RCPT TO:<b@ours.test>
-- < 550 5.7.1 relaying not permitted for *
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('get_listener_domain', function(domain)
  if domain == 'ours.test' then
    return kumo.make_listener_domain { relay_from = { '127.0.0.1' } }
  end
end)
