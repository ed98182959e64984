-- smtp_server_data sees the octets of the client, and smtp_server_message_received a Received field before them.
--
-- mail a@source.test to b@target.test
-- | Subject: order
-- |
-- | Hello.
-- arrives
--   header X-At-Data: Subject: order
--   header X-At-Message: Received: from client.test *
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

local function first_line(msg)
  return msg:get_data():match '^(.-)\r\n%S'
end

kumo.on('smtp_server_data', function(msg, conn_meta)
  conn_meta:set_meta('first', msg:get_data():match '^[^\r]*')
end)

kumo.on('smtp_server_message_received', function(msg, conn_meta)
  local first = first_line(msg):gsub('%s+', ' ')
  msg:append_header('X-At-Data', conn_meta:get_meta 'first')
  msg:append_header('X-At-Message', first)
end)

start.deliver()
