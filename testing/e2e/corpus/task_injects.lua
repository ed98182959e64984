-- A task that starts with the program sends a message of its own.
--
-- arrives
--   from: robot@source.test
--   to: admin@target.test
--   header Subject: up
--   body: Started with blue.
-- logged Reception
--   sender: robot@source.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.spawn_task { event_name = 'announce', args = { 'blue' } }
end)

kumo.on('announce', function(args)
  local content = 'Subject: up\r\n\r\nStarted with ' .. args[1] .. '.\r\n'
  kumo.inject_message(kumo.make_message('robot@source.test', 'admin@target.test', content))
end)

start.deliver()
