-- Skipped hosts are left out; when none remains, mail waits.
--
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   response.code: 451
--   response.enhanced_code: {"class":4,"subject":4,"detail":4}
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { skip_hosts = { '127.0.0.0/24' } }
end)
