-- A provider of a shaping file is found by its domains, and named in the record.
--
-- mail a@source.test to b@mail.big.test
-- arrives
--   ehlo: of.provider.test
-- logged Delivery
--   provider_name: big
-- file shaping.toml
-- | ["default"]
-- | enable_tls = "Disabled"
-- | prohibited_hosts = []
-- |
-- | [provider."big"]
-- | match = [{DomainSuffix = ".big.test"}]
-- | ehlo_domain = "of.provider.test"
local kumo = require 'kumo'
local start = require 'start'

local shaping = require 'policy-extras.shaping'

kumo.on('init', function()
  start.serve()
end)

local shaper = shaping:setup_with_automation {
  no_default_files = true,
  extra_files = { start.dir .. '/shaping.toml' },
}

kumo.on('get_egress_path_config', shaper.get_egress_path_config)

kumo.on('get_queue_config', function()
  return start.queue()
end)
