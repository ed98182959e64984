-- Who authenticated as a user of the list may relay as the domain, from wherever he is.
--
-- connect tls
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@ours.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 550 5.7.1 *
-- > RSET
-- < 250 *
-- > AUTH PLAIN AHNjb3R0AHRpZ2Vy
-- < 235 *
-- > MAIL FROM:<a@ours.test>
-- < 250 *
-- > RCPT TO:<b@target.test>
-- < 250 *
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

local listener_domains = require 'policy-extras.listener_domains'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('smtp_server_auth_plain', function(_, authc)
  return authc == 'scott'
end)

kumo.on('get_listener_domain', listener_domains:setup { { ['ours.test'] = { relay_from_authz = { 'scott' } } } })
