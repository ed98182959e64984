-- What would end the start fails the validation.
--
-- validate fails
-- stderr: *unknown field `hostnames`*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostnames = 'x' } } }
end)
