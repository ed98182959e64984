-- Mail to `a.test` goes to a provider, from a source of a pool; `dead.test` is the same provider, where nobody answers. What goes to
-- other domains has no provider but its site.
--   PROVIDED_DIR, PROVIDED_TO (host:port)
local kumo = require 'kumo'
local DIR = os.getenv 'PROVIDED_DIR'
local OF_BIG = { ['a.test'] = true, ['dead.test'] = true }

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_egress_source', function(name)
  return kumo.make_egress_source { name = name }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-1' } } }
end)

kumo.on('get_queue_config', function(domain)
  local to = domain == 'dead.test' and '127.0.0.1:1' or os.getenv 'PROVIDED_TO'
  return kumo.make_queue_config {
    egress_pool = 'shared',
    provider_name = OF_BIG[domain] and 'big' or nil,
    retry_interval = '1h',
    protocol = { smtp = { mx_list = { { name = domain, addr = to } } } },
  }
end)

kumo.on('get_egress_path_config', function(domain)
  return kumo.make_egress_path { provider_name = OF_BIG[domain] and 'big' or nil, enable_tls = 'Disabled', prohibited_hosts = {} }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
  if msg:recipient().domain == 'dead.test' then
    msg:set_meta('campaign', 'news')
  end
end)
