-- A program without both spools has nowhere to keep mail.
--
-- start fails
-- stderr: *meta*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.define_spool { name = 'data', path = start.dir .. '/data' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0' }
end)
