-- The queue helper names a tenant of a domain's block that is not defined.
--
-- validate fails
-- stdout: *target.test*acme*
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

queue_module:setup { { queue = { ['target.test'] = { acme = { max_age = '1 day' } } } } }
