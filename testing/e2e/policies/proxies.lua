-- One source with the options of the test's choice before one smart host; a log segment a second.
--   PROXIES_DIR, PROXIES_TO (host:port), PROXIES_SOURCE (the options, as the inside of a Lua table)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'PROXIES_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'PROXIES_TO'),
    egress_pool = 'proxied',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'ip-1' } } }
end)

kumo.on('get_egress_source', function(name)
  local source = base.table_of(os.getenv 'PROXIES_SOURCE')
  source.name = name
  return kumo.make_egress_source(source)
end)

kumo.on('get_egress_path_config', function()
  return base.path { connect_timeout = '15s' }
end)
