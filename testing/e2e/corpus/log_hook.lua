-- Records that a hook asks for are messages of their own, delivered like any.
--
-- remote collector
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- arrives at collector
--   from: a@source.test
--   to: b@target.test
--   content: *"type":"Delivery"*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.configure_log_hook { name = 'collect' }
end)

kumo.on('should_enqueue_log_record', function(msg, hook_name)
  if hook_name == 'collect' and msg:get_meta('log_record').type == 'Delivery' then
    msg:set_meta('queue', 'collector')
    return true
  end
  return false
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'collector' and 'collector' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
