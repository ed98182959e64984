-- An error in init ends the start with its place.
--
-- start fails
-- stderr: *start_init_error.lua:8: no database today*
local kumo = require 'kumo'

kumo.on('init', function()
  error 'no database today'
end)
