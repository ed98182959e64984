-- A pool of two sources, the first with options of the test's choice, before one smart host; retries far away.
--   SOURCES_DIR, SOURCES_TO (host:port), SOURCES_SICK (options of the source `sick`, as the inside of a Lua table)
local kumo = require 'kumo'
local DIR = os.getenv 'SOURCES_DIR'

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
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'SOURCES_TO' } } } },
    egress_pool = 'both',
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'sick' }, { name = 'well' } } }
end)

kumo.on('get_egress_source', function(name)
  local options = name == 'sick' and os.getenv 'SOURCES_SICK' or ''
  local source = assert(load('return {' .. options .. '}'))()
  source.name = name
  return kumo.make_egress_source(source)
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
