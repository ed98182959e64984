-- By default a site on this machine is prohibited, and its mail bounces.
--
-- mail a@source.test to b@target.test
-- logged Bounce
--   response.code: 550
--   response.enhanced_code: {"class":5,"subject":4,"detail":4}
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)
