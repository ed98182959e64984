-- A block for one listener comes before those for all, and `*` is every domain.
--
-- connect 1
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@ours.test>
-- < 250 *
-- > RCPT TO:<b@any.test>
-- < 550 5.7.1 *
-- connect 2
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<b@any.test>
-- < 250 *
-- logged Rejection
--   recipient: b@any.test
-- file domains.toml
-- | ["ours.test"]
-- | relay_to = true
-- |
-- | [listener."*"."*"]
-- | relay_to = false
-- |
-- | [listener."127.0.0.2:PORT"."any.test"]
-- | relay_to = true
local kumo = require 'kumo'
local start = require 'start'

local policy_utils = require 'policy-extras.policy_utils'
local listener_domains = require 'policy-extras.listener_domains'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} }, { relay_hosts = {}, listen = '127.0.0.2:0' } } }
end)

-- The system chose the port: the file says only the address.
local setup = listener_domains:setup { start.dir .. '/domains.toml' }

kumo.on('get_listener_domain', function(domain, listener, conn_meta)
  local ip = policy_utils.split_ip_port(listener)
  return setup(domain, ip .. ':PORT', conn_meta)
end)
