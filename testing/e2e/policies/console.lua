-- Mail for the console to show: `good.test` is delivered, everything else meets a server that refuses for the time being.
--   CONSOLE_DIR, CONSOLE_GOOD (host:port), CONSOLE_REFUSES (host:port)
-- The fields X-Tenant and X-Campaign of a message say whose it is, X-Routing_domain which way it goes.
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'CONSOLE_DIR')
end)

kumo.on('smtp_server_message_received', function(msg)
  for _, name in ipairs { 'tenant', 'campaign', 'routing_domain' } do
    msg:set_meta(name, msg:get_first_named_header_value('X-' .. name))
  end
end)

kumo.on('get_queue_config', function(domain)
  local addr = os.getenv(domain == 'good.test' and 'CONSOLE_GOOD' or 'CONSOLE_REFUSES')
  return kumo.make_queue_config {
    protocol = base.to_host(addr, 'mx.' .. domain),
    retry_interval = '1h',
    egress_pool = 'shared',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-1' } } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
