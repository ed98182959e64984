-- One smart host; messages carry their constraints in a header.
--   SCHEDULING_DIR, SCHEDULING_TO (host:port)
local kumo = require 'kumo'
local DIR = os.getenv 'SCHEDULING_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('smtp_server_message_received', function(msg)
  local ok, found = pcall(msg.import_scheduling_header, msg, 'X-Schedule', true)
  if not ok then
    kumo.reject(554, '5.6.0 ' .. tostring(found))
  end
end)

kumo.on('deliver_by_missed', function(msg)
  local to = tostring(msg:recipient())
  local missed = assert(io.open(DIR .. '/missed', 'a'))
  missed:write(to .. '\n')
  missed:close()
  error('the handler fails for ' .. to)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'SCHEDULING_TO' } } } },
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
