-- A handler of validate_config finds the policy wanting.
--
-- validate fails
-- stdout: there is no tenant
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('validate_config', function()
  print 'there is no tenant'
  kumo.validation_failed()
end)

kumo.on('validate_config', function()
  assert(_VALIDATING_CONFIG)
end)
