-- Between two messages of a connection there is an RSET, unless the path says otherwise.
--
-- mail a@source.test to one@target.test
-- mail a@source.test to two@target.test
-- arrives
--   to: one@target.test
-- arrives
--   commands: *RCPT TO:<one@target.test> / DATA / . / RSET / MAIL FROM:*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { connection_limit = 1, idle_timeout = '20s' }
end)
