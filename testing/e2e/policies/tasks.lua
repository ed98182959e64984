-- Tasks: one sends what it is told to send, one computes for ever, one fails.
--   TASKS_DIR, TASKS_TO (host:port)
local kumo = require 'kumo'
local base = require 'base'
local words = kumo.mpsc.define 'words'

kumo.on('init', function()
  base.serve(os.getenv 'TASKS_DIR')
  kumo.spawn_task { event_name = 'tasks.send', args = { 'task@source.test', 2 } }
  kumo.spawn_task { event_name = 'tasks.compute' }
  kumo.spawn_task { event_name = 'tasks.fail', args = { { why = 'no reason' } } }
  kumo.spawn_task { event_name = 'tasks.nobody' }
end)

kumo.on('tasks.send', function(args)
  assert(#args == 2 and args[2] == 2)
  local sent = 0
  for word in function() return words:recv() end do
    sent = sent + 1
    kumo.inject_message(kumo.make_message(args[1], word .. '@sink.test', 'Subject: ' .. sent .. '\r\n\r\n'))
  end
end)

kumo.on('tasks.compute', function()
  while true do
  end
end)

kumo.on('tasks.fail', function(args)
  error(args[1].why)
end)

kumo.on('smtp_server_mail_from', function(sender)
  words:send(sender.user)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'TASKS_TO') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
