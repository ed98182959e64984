-- A span that does not read ends the start.
--
-- start fails
-- stderr: *client_timeout*soon*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { client_timeout = 'soon' } } }
end)
