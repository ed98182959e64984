-- A block for a source within a domain's counts for that source alone.
--
-- mail a@source.test to 1@target.test 2@target.test
-- arrives
--   ehlo: of.domain.test
-- arrives
--   ehlo: of.two.test
-- file shaping.json
-- | {
-- |   "default": {"enable_tls": "Disabled", "prohibited_hosts": []},
-- |   "target.test": {
-- |     "mx_rollup": false, "ehlo_domain": "of.domain.test",
-- |     "sources": {"two": {"ehlo_domain": "of.two.test"}}
-- |   }
-- | }
local kumo = require 'kumo'
local start = require 'start'

local shaping = require 'policy-extras.shaping'
local sources = require 'policy-extras.sources'

kumo.on('init', function()
  start.serve()
end)

sources:setup { { source = { one = {}, two = {} }, pool = { both = { one = {}, two = {} } } } }

local shaper = shaping:setup_with_automation {
  no_default_files = true,
  extra_files = { start.dir .. '/shaping.json' },
}

kumo.on('get_egress_path_config', shaper.get_egress_path_config)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'both' }
end)
