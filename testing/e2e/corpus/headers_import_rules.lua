-- Rules say which of several fields counts, how its name is written and whether it stays.
--
-- mail a@source.test to b@target.test
-- | X-Job: one
-- | X-Job: two
-- | X-Tag: red
-- | X-Tag: blue
-- | X-My-Name: z
-- |
-- | Hello.
-- arrives
--   header X-Job: one
--   no header X-My-Name
-- logged Reception
--   meta.job: two
--   meta.x_tag: ["red","blue"]
--   meta.xMyName: z
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { logs = { meta = { 'job', 'x*' } } }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:import_headers {
    { name = 'X-Job', target = 'job' },
    { name = 'X-Tag', match = 'all' },
    { name = 'X-*', transform = 'camel_case', remove = true },
  }
end)

start.deliver()
