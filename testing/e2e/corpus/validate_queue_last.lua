-- The queue helper complains of a handler behind it, which nobody would ask.
--
-- validate fails
-- stdout: *get_queue_config*
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

queue_module:setup { { queue = { default = { max_age = '1 day' } } } }

kumo.on('get_queue_config', function()
  return start.queue()
end)
