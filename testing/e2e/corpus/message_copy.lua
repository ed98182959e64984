-- A handler sends a copy of each message to an archive, and only the copy is marked.
--
-- remote archive
-- mail a@source.test to b@target.test
-- | Subject: twice
-- |
-- | Hello.
-- arrives
--   to: b@target.test
--   no header X-Copy
-- arrives at archive
--   to: all@archive.test
--   header Subject: twice
--   header X-Copy: of a@source.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local copy = kumo.make_message(msg:sender(), 'all@archive.test', msg:get_data())
  copy:append_header('X-Copy', 'of ' .. msg:sender().email)
  kumo.inject_message(copy)
end)

kumo.on('get_queue_config', function(domain)
  return start.queue { protocol = start.to(domain == 'archive.test' and 'archive' or 'sink') }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
