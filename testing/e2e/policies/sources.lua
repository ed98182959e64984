-- A pool of two sources, the first with options of the test's choice, before one smart host; retries far away.
--   SOURCES_DIR, SOURCES_TO (host:port), SOURCES_SICK (options of the source `sick`, as the inside of a Lua table),
--   SOURCES_PATH (options of all paths, likewise)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'SOURCES_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'SOURCES_TO'),
    egress_pool = 'both',
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_pool', function(name)
  return kumo.make_egress_pool { name = name, entries = { { name = 'sick' }, { name = 'well' } } }
end)

kumo.on('get_egress_source', function(name)
  local source = base.table_of(name == 'sick' and os.getenv 'SOURCES_SICK' or nil)
  source.name = name
  return kumo.make_egress_source(source)
end)

kumo.on('get_egress_path_config', function()
  return base.path(base.table_of(os.getenv 'SOURCES_PATH'))
end)
