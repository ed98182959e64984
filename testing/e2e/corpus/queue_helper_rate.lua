-- The rate of a tenant is one for all his queues.
--
-- mail a@source.test to one@target.test
-- | X-Tenant: acme
-- |
-- | Hello.
-- emptied
-- mail a@source.test to two@other.test
-- | X-Tenant: acme
-- |
-- | Hello.
-- mail a@source.test to three@other.test
-- | X-Tenant: free
-- |
-- | Hello.
-- arrives
--   to: one@target.test
-- arrives
--   to: three@other.test
-- logged Delayed
--   recipient: two@other.test
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    tenant_header = 'X-Tenant',
    tenant = { acme = { overall_max_message_rate = '1/hour' }, free = {} },
    queue = { default = { protocol = start.to 'sink' } },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
