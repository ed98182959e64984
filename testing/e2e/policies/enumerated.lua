-- A script that looks at the messages of earlier runs.
--   SEEN_DIR, SEEN_SINK
--   SEEN_LATER: it does
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'SEEN_DIR'

kumo.on('init', function()
  base.serve(DIR, { logs = { meta = { 'seen' } } })
end)

kumo.on('smtp_server_message_received', function(msg)
  if not os.getenv 'SEEN_LATER' then
    msg:set_due '2040-01-01T00:00:00Z'
  end
end)

if os.getenv 'SEEN_LATER' then
  kumo.on('spool_message_enumerated', function(msg)
    base.write(DIR .. '/seen', 'a', msg:sender().user .. ' ' .. msg:get_data():match 'body [0-9]+' .. '\n')
    if msg:sender().user == 'moved' then
      msg:set_meta('seen', 'yes')
      msg:set_meta('queue', 'elsewhere.test')
      msg:set_due()
    elseif msg:sender().user == 'gone' then
      msg:set_meta('queue', 'null')
    elseif msg:sender().user == 'fails' then
      error 'no opinion'
    end
  end)
end

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'SEEN_SINK') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
