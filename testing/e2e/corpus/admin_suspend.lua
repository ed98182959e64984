-- A script holds a tenant's mail back; other mail goes on.
--
-- mail a@source.test to one@target.test two@target.test
-- arrives
--   to: two@target.test
-- queued 1
-- waits slow@target.test: ReadyQueueWasSuspended
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_data', function()
  kumo.api.admin.suspend.suspend { tenant = 'slow', reason = 'paused', duration = '1h' }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', msg:recipient().user == 'one' and 'slow' or 'fast')
end)

start.deliver()
