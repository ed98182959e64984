-- An option that does not exist ends the start, and the nearest one is suggested.
--
-- start fails
-- stderr: *start_esmtp_listener*unknown field `baner`*`banner`*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { baner = 'hello' } } }
end)
