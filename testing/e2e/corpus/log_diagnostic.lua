-- What a script logs has its place, its level and all its arguments.
--
-- > NOOP
-- < 250 *
-- stderr: *WARN*log_diagnostic.lua:*one 2 true nil*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.log_warn('one', 2, true, nil)
end)
