-- A second handler of an event that has one is an error that says where the first is.
--
-- start fails
-- stderr: *init*already*start_two_inits.lua:8*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('init', function() end)
