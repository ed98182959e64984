-- Events hand work to a task through a queue that all states share.
--
-- mail a@source.test to 1@target.test
-- mail a@source.test to 2@target.test
-- arrives
--   to: 1@target.test
-- arrives
--   to: 2@target.test
-- wrote audit: 1@target.test / 2@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.spawn_task { event_name = 'audit', args = {} }
end)

kumo.on('smtp_server_message_received', function(msg)
  kumo.mpsc.define('audit', 100):send(msg:recipient().email)
end)

kumo.on('audit', function()
  local queue = kumo.mpsc.define('audit', 100)
  for recipient in queue.recv, queue do
    start.write(start.dir .. '/audit', 'a', recipient .. '\n')
  end
end)

start.deliver()
