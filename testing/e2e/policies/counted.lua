-- Does a little of everything that KumoMTA has a metric for. Of two sources the first has an address that is nobody's; at `dead.test` nobody
-- answers.
--   COUNTED_DIR, COUNTED_TO (host:port), COUNTED_KEY (PEM file)
local kumo = require 'kumo'
local base = require 'base'

local address_of = kumo.memoize(function(domain)
  return domain == 'dead.test' and '127.0.0.1:1' or os.getenv 'COUNTED_TO'
end, { name = 'addresses', ttl = '1 minute', capacity = 8 })

kumo.on('init', function()
  base.serve(os.getenv 'COUNTED_DIR')
end)

kumo.on('smtp_server_message_received', function(msg)
  local timer <close> = kumo.time.start_timer 'received'
  msg:set_meta('tenant', 'acme')
  msg:set_meta('campaign', 'news')
  msg:dkim_sign(kumo.dkim.ed25519_signer {
    domain = 'source.test',
    selector = 's1',
    headers = { 'From', 'To', 'Subject' },
    key = os.getenv 'COUNTED_KEY',
  })
end)

kumo.on('get_queue_config', function(domain)
  return kumo.make_queue_config {
    protocol = base.to_host(address_of(domain)),
    egress_pool = 'both',
    provider_name = 'big',
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'sick' }, { name = 'well' } } }
end)

kumo.on('get_egress_source', function(name)
  if name == 'sick' then
    -- TEST-NET-1 (RFC 5737).
    local rest = { trigger = 'Immediate', duration = '10 minutes' }
    return kumo.make_egress_source { name = name, source_address = '192.0.2.7', suspend_when_unplumbed = rest }
  end
  return kumo.make_egress_source { name = name }
end)

kumo.on('get_egress_path_config', function()
  return base.path { provider_name = 'big' }
end)
