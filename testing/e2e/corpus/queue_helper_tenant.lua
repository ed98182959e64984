-- The queue helper takes the tenant from a header field, which does not leave.
--
-- mail a@source.test to b@target.test
-- | X-Tenant: acme
-- | Subject: of a tenant
-- |
-- | Hello.
-- arrives
--   to: b@target.test
--   no header X-Tenant
-- logged Delivery
--   queue: acme@target.test
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    tenant_header = 'X-Tenant',
    remove_tenant_header = true,
    tenant = { acme = {} },
    queue = { default = { protocol = start.to 'sink' } },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
