-- Who sends as a domain of ours from the right network may relay to anywhere.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@far.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 *
-- > RSET
-- < 250 *
-- > MAIL FROM:<a@near.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- logged Rejection
--   sender: a@far.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

local networks = { ['near.test'] = { '127.0.0.0/8' }, ['far.test'] = { '192.0.2.0/24' } }

kumo.on('get_listener_domain', function(domain)
  return kumo.make_listener_domain { relay_from = networks[domain] }
end)
