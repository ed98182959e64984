-- Of all that is said about a queue the most specific wins: campaign over tenant over domain over default.
--
-- remote campaign
-- remote tenant
-- remote domain
-- mail a@source.test to b@target.test
-- | X-Tenant: acme
-- | X-Campaign: spring
-- |
-- | Hello.
-- mail a@source.test to b@target.test
-- | X-Tenant: acme
-- | X-Campaign: autumn
-- |
-- | Hello.
-- mail a@source.test to b@target.test
-- | X-Tenant: other
-- |
-- | Hello.
-- mail a@source.test to b@else.test
-- | X-Tenant: acme
-- |
-- | Hello.
-- arrives at campaign
--   header X-Campaign: spring
-- arrives at tenant
--   header X-Campaign: autumn
-- arrives at domain
--   header X-Tenant: other
-- arrives at sink
--   to: b@else.test
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    tenant_header = 'X-Tenant',
    campaign_header = 'X-Campaign',
    tenant = { acme = {}, other = {} },
    queue = {
      default = { protocol = start.to 'sink' },
      ['target.test'] = {
        protocol = start.to 'domain',
        acme = { protocol = start.to 'tenant', spring = { protocol = start.to 'campaign' } },
      },
    },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
