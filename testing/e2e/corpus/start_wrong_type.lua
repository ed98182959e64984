-- A value of the wrong type ends the start; option, value and what was expected are named.
--
-- start fails
-- stderr: *max_message_size*"much"*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { max_message_size = 'much' } } }
end)
