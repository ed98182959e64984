-- The metadata `queue` is the queue's whole name, whatever tenant and recipient say.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged Delivery
--   queue: my.own.queue
--   recipient: b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
  msg:set_meta('queue', 'my.own.queue')
end)

kumo.on('get_queue_config', function(domain)
  if domain == 'my.own.queue' then
    return start.queue()
  end
  return kumo.make_queue_config { protocol = { smtp = { mx_list = { '[127.0.0.1]:1' } } } }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
