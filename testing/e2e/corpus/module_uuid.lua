-- A message gets an identity of the script's.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Trace: hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh 7
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local id = kumo.uuid.new_v7()
  assert(kumo.uuid.parse(tostring(id)).bytes == id.bytes)
  msg:append_header('X-Trace', tostring(id):gsub('%x', 'h') .. ' ' .. tostring(id):sub(15, 15))
end)

start.deliver()
