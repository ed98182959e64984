-- The listener domains helper names the domain whose option is wrong.
--
-- validate fails
-- stdout: *target.test*relay_too*
local kumo = require 'kumo'
local start = require 'start'

local listener_domains = require 'policy-extras.listener_domains'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_listener_domain', listener_domains:setup { { ['target.test'] = { relay_too = true } } })
