-- A script keeps a log of its own in segments, and reads it back.
--
-- mail a@source.test to b@target.test
-- arrives
--   header X-Kept: b@target.test 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local folder = start.dir .. '/own'
  local writer = kumo.jsonl.new_writer { log_dir = folder }
  writer:write_record { to = msg:recipient().email }
  writer:close()
  local tailer = kumo.jsonl.new_tailer { directory = folder, max_batch_size = 1 }
  for batch in tailer:batches() do
    local records = batch:records()
    msg:append_header('X-Kept', records[1].to .. ' ' .. #records)
    break
  end
  tailer:close()
end)

start.deliver()
