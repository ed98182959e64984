-- A server whose parts NOW names, JSON that the test writes in front of this:
--   name: what handlers of this reading call themselves
--   logs, hooks, esmtp, http: lists of what is to be configured or started; spool: more for the spools
--   filters: the events that loggers ask by
--   disposition: hooks that hear of records
-- RELOADED_SINK: where mail goes. Handlers wait while RELOADED_DIR/shut is there.
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'RELOADED_DIR'
local now = kumo.serde.json_parse(NOW)

local function asked(what)
  while base.exists(DIR .. '/shut') do
    kumo.sleep(0.02)
  end
  base.write(DIR .. '/asked', 'a', now.name .. ' ' .. what .. '\n')
end

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool(base.over({ name = name, path = DIR .. '/' .. name }, now.spool))
  end
  for _, logs in ipairs(now.logs or {}) do
    kumo.configure_local_logs(base.over({ log_dir = DIR .. '/logs', max_segment_duration = '1s' }, logs))
  end
  for _, hook in ipairs(now.hooks or {}) do
    kumo.configure_log_hook(hook)
  end
  for _, name in ipairs(now.disposition or {}) do
    kumo.configure_log_disposition_hook { name = name }
  end
  for _, http in ipairs(now.http or { {} }) do
    kumo.start_http_listener(base.over({ listen = '127.0.0.1:0' }, http))
  end
  for _, esmtp in ipairs(now.esmtp or { {} }) do
    kumo.start_esmtp_listener(base.over({ listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }, esmtp))
  end
end)

for _, event in ipairs(now.filters or {}) do
  kumo.on(event, function()
    asked(event)
    return true
  end)
end

for _, name in ipairs(now.disposition or {}) do
  kumo.on('log_disposition_' .. name, function(_, record)
    asked(name .. ' ' .. record.type)
  end)
end

if now.hooks then
  kumo.on('should_enqueue_log_record', function(msg, hook)
    asked('hook ' .. hook)
    msg:set_meta('queue', 'records.test')
    return true
  end)
end

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'RELOADED_SINK'), retry_interval = '1s' }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
