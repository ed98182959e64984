-- The shaping helper builds a path from what is said of all domains and of the one.
--
-- remote other
-- mail a@source.test to b@target.test
-- mail a@source.test to b@other.test
-- arrives
--   to: b@target.test
--   ehlo: of.domain.test
-- arrives at other
--   to: b@other.test
--   ehlo: of.default.test
-- file shaping.toml
-- | ["default"]
-- | enable_tls = "Disabled"
-- | prohibited_hosts = []
-- | ehlo_domain = "of.default.test"
-- |
-- | ["target.test"]
-- | mx_rollup = false
-- | ehlo_domain = "of.domain.test"
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

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'other.test' and 'other' or 'sink') }
end)
