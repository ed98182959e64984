-- A network with host bits set ends the start, and the right one is suggested.
--
-- start fails
-- stderr: *10.0.0.1/8*10.0.0.0/8*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = { '10.0.0.1/8' } } } }
end)
