-- Sources and pools of the helper are those of two files together.
--
-- mail a@source.test to b@target.test
-- arrives
--   peer: 127.0.0.6
--   ehlo: six.test
-- logged Delivery
--   egress_pool: shared
--   egress_source: ip-6
-- file sources.toml
-- | [source."ip-6"]
-- | source_address = "127.0.0.6"
-- |
-- | [pool."shared"."ip-6"]
-- file more.json
-- | {"source": {"ip-6": {"ehlo_domain": "six.test"}}}
local kumo = require 'kumo'
local start = require 'start'

local sources = require 'policy-extras.sources'

kumo.on('init', function()
  start.serve()
end)

sources:setup { start.dir .. '/sources.toml', start.dir .. '/more.json' }

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'shared' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
