-- One smart host; messages carry their constraints in a header.
--   SCHEDULING_DIR, SCHEDULING_TO (host:port)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'SCHEDULING_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('smtp_server_message_received', function(msg)
  local ok, found = pcall(msg.import_scheduling_header, msg, 'X-Schedule', true)
  if not ok then
    kumo.reject(554, '5.6.0 ' .. tostring(found))
  end
end)

kumo.on('deliver_by_missed', function(msg)
  local to = tostring(msg:recipient())
  base.write(DIR .. '/missed', 'a', to .. '\n')
  error('the handler fails for ' .. to)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'SCHEDULING_TO'),
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
