-- One smart host; throttles by what the environment says.
--   THROTTLES_DIR, THROTTLES_TO (host:port), THROTTLES_REDIS (URL: shared by nodes), THROTTLES_SHARE (while it is away)
--   THROTTLES_MAIL (spec: refuses MAIL), THROTTLES_READY (spec: sends back before the ready queue)
--   THROTTLES_SLEEP (spec: sleeps at RCPT)
local kumo = require 'kumo'
local DIR = os.getenv 'THROTTLES_DIR'
local MAIL, READY, SLEEP = os.getenv 'THROTTLES_MAIL', os.getenv 'THROTTLES_READY', os.getenv 'THROTTLES_SLEEP'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  kumo.start_http_listener { listen = '127.0.0.1:0' }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
  local redis = os.getenv 'THROTTLES_REDIS'
  if redis then
    kumo.configure_redis_throttles {
      node = redis,
      response_timeout = '500ms',
      share_while_away = tonumber(os.getenv 'THROTTLES_SHARE'),
    }
  end
end)

kumo.on('smtp_server_mail_from', function()
  if MAIL then
    local answer = kumo.make_throttle('mail', MAIL):throttle()
    if answer.throttled then
      kumo.reject(451, '4.7.1 throttled, ' .. answer.remaining .. ' of ' .. answer.limit .. ' left')
    end
  end
end)

kumo.on('smtp_server_rcpt_to', function()
  if SLEEP then
    kumo.make_throttle('rcpt', SLEEP):sleep_if_throttled()
  end
end)

-- Two handlers: each has its say.
kumo.on('throttle_insert_ready_queue', function(msg)
  assert(msg:get_meta 'received_from', 'metadata is there')
end)

kumo.on('throttle_insert_ready_queue', function(msg)
  if READY then
    kumo.make_throttle('ready-' .. msg:recipient().domain, READY):delay_message_if_throttled(msg)
  end
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'sink.test', addr = os.getenv 'THROTTLES_TO' } } } },
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {} }
end)
