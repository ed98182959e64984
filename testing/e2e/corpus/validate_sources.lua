-- The sources helper names a pool's source that is not defined.
--
-- validate fails
-- stdout: *pool `shared`*`ip-2`*
local kumo = require 'kumo'
local start = require 'start'

local sources = require 'policy-extras.sources'

kumo.on('init', function()
  start.serve()
end)

sources:setup { { source = { ['ip-1'] = {} }, pool = { shared = { ['ip-1'] = {}, ['ip-2'] = {} } } } }
