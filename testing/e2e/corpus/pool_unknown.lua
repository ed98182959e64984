-- A queue whose pool nobody defines cannot send: its mail waits, and the log names the pool.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
--   response.enhanced_code: {"class":4,"subject":4,"detail":4}
-- queued 1
-- stderr: *get_egress_pool*nowhere*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue { egress_pool = 'nowhere' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
