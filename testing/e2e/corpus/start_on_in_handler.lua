-- Handlers are registered when the policy is loaded, not by a handler.
--
-- start fails
-- stderr: *kumo.on*init*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.on('smtp_server_ehlo', function() end)
end)
