-- The helper's wildcards cover what is below a domain, and exact names come before them.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@below.ours.test>
-- < 250 *
-- > RCPT TO:<b@closed.ours.test>
-- < 550 5.7.1 *
-- > RCPT TO:<b@ours.test>
-- < 550 5.7.1 *
-- logged Rejection
--   recipient: b@closed.ours.test
-- logged Rejection
--   recipient: b@ours.test
local kumo = require 'kumo'
local start = require 'start'

local listener_domains = require 'policy-extras.listener_domains'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('get_listener_domain', listener_domains:setup {
  { ['*.ours.test'] = { relay_to = true }, ['closed.ours.test'] = { relay_to = false } },
})
