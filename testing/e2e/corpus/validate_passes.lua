-- A sound policy is validated without being started: its listeners bind nothing.
--
-- validate passes
-- stdout: flag true
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { listen = '192.0.2.1:1' } } }
end)

kumo.on('validate_config', function()
  print('flag ' .. tostring(_VALIDATING_CONFIG))
end)
