-- The shaping helper names an option of a shaping file that no path has.
--
-- validate fails
-- stdout: *conection_limit*
-- file shaping.toml
-- | ["target.test"]
-- | mx_rollup = false
-- | conection_limit = 3
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
