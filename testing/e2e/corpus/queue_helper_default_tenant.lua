-- Mail that names no tenant belongs to the default one, and has his options.
--
-- remote gold
-- mail a@source.test to b@target.test
-- arrives at gold
--   to: b@target.test
-- logged Delivery
--   queue: house@target.test
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    tenant_header = 'X-Tenant',
    default_tenant = 'house',
    tenant = { house = { protocol = start.to 'gold' }, acme = {} },
    queue = { default = { protocol = start.to 'sink' } },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
