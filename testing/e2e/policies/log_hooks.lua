-- Log records as messages: to a web server, and in batches to a file.
--   HOOKS_DIR, HOOKS_URL, HOOKS_SINK
--   HOOKS_SLOW: the web server's hook takes its time to think
--   HOOKS_SPOOL: kind of spool
--   HOOKS_BROKEN: nobody takes what goes to the file, for the time being
--   HOOKS_ROOM: how many records the web server's hook may hold
local kumo = require 'kumo'
local base = require 'base'
local log_hooks = require 'policy-extras.log_hooks'
local DIR = os.getenv 'HOOKS_DIR'

log_hooks:new_json {
  name = 'webhook',
  url = os.getenv 'HOOKS_URL',
  log_parameters = {
    meta = { 'tenant' },
    headers = { 'Subject', 'X-A*' },
    back_pressure = tonumber(os.getenv 'HOOKS_ROOM'),
    per_record = { Delayed = { enable = false }, TransientFailure = { enable = false } },
  },
  filter = function(msg, hook_name)
    if os.getenv 'HOOKS_SLOW' then
      kumo.sleep(0.3)
    end
    local record = msg:get_meta 'log_record'
    if record.sender == 'echo@a.test' and record.type == 'Reception' then
      kumo.inject_message(kumo.make_message('quiet@a.test', 'echoed@b.test', 'Subject: echo\r\n\r\n'))
    end
    if record.sender == 'huge@a.test' then
      -- Six octets each in JSON: more than a spool of one file a message takes.
      msg:set_meta('huge', string.rep('\1', 12 * 1024 * 1024))
    end
    return hook_name == 'webhook' and record.sender == 'quiet@a.test'
  end,
}

log_hooks:new {
  name = 'file',
  log_parameters = {
    per_record = {
      Delivery = { template = '{{ sender }} {{ recipient }} {{ response.code }}' },
      Any = { enable = false },
    },
  },
  batch_size = 50,
  queue_config = { retry_interval = '1s' },
  constructor = function()
    local connection = {}
    function connection:send_batch(messages)
      if os.getenv 'HOOKS_BROKEN' then
        kumo.reject(451, 'not now')
      end
      local lines = {}
      for number, message in ipairs(messages) do
        lines[number] = message:get_data()
      end
      base.write(DIR .. '/lines', 'a', table.concat(lines))
      return 'written'
    end
    return connection
  end,
}

kumo.on('init', function()
  base.serve(DIR, {
    spool = { kind = os.getenv 'HOOKS_SPOOL' },
    logs = {
      meta = { 'queue' },
      headers = { 'x-a' },
      per_record = { Rejection = { template = '{"type":"Rejection","code":{{ response.code }}}' } },
      filter_event = 'keep_record',
    },
  })
end)

kumo.on('shutdown_logging', function()
  base.write(DIR .. '/ended', 'w', 'yes')
end)

kumo.on('keep_record', function(msg)
  if msg:sender().email == 'broken@a.test' then
    error 'no opinion'
  end
  return msg:sender().email ~= 'unlogged@a.test'
end)

kumo.on('smtp_server_rcpt_to', function(recipient)
  if recipient.user == 'refused' then
    kumo.reject(550, 'not here')
  end
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'HOOKS_SINK') }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
