-- One source with the options of the test's choice before one smart host; a log segment a second.
--   PROXIES_DIR, PROXIES_TO (host:port), PROXIES_SOURCE (the options, as the inside of a Lua table)
local kumo = require 'kumo'
local DIR = os.getenv 'PROXIES_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'PROXIES_TO' } } } },
    egress_pool = 'proxied',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-1' } } }
end)

kumo.on('get_egress_source', function(name)
  local source = assert(load('return {' .. os.getenv 'PROXIES_SOURCE' .. '}'))()
  source.name = name
  return kumo.make_egress_source(source)
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {}, connect_timeout = '15s' }
end)
