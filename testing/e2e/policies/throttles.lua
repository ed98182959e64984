-- One smart host; throttles by what the environment says.
--   THROTTLES_DIR, THROTTLES_TO (host:port), THROTTLES_REDIS (URL: shared by nodes), THROTTLES_SHARE (while it is away)
--   THROTTLES_MAIL (spec: refuses MAIL), THROTTLES_READY (spec: sends back before the ready queue)
--   THROTTLES_SLEEP (spec: sleeps at RCPT)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'THROTTLES_DIR'
local MAIL, READY, SLEEP = os.getenv 'THROTTLES_MAIL', os.getenv 'THROTTLES_READY', os.getenv 'THROTTLES_SLEEP'

kumo.on('init', function()
  base.serve(DIR)
  local redis = os.getenv 'THROTTLES_REDIS'
  if redis then
    kumo.configure_redis_throttles {
      node = redis,
      response_timeout = '2s',
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
    protocol = base.to_host(os.getenv 'THROTTLES_TO'),
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
