-- A server whose log is read by event streams.
--   EVENTS_DIR, EVENTS_SINK: where its files are, where mail goes
--   EVENTS_LOGS, EVENTS_HTTP: more for the logger and the HTTP listener
-- EVENTS_DIR/streams: a Lua list of the streams, without its braces; `log_dir` is set here.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'EVENTS_DIR'

kumo.on('init', function()
  base.serve(DIR, {
    logs = base.table_of(os.getenv 'EVENTS_LOGS'),
    http = base.table_of(os.getenv 'EVENTS_HTTP'),
  })
  for _, stream in ipairs(base.table_of(base.read(DIR .. '/streams'))) do
    kumo.configure_event_stream(base.over({ log_dir = DIR .. '/logs' }, stream))
  end
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'EVENTS_SINK') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
