-- Mail that waits for limits: `a.test` and `b.test` share a rate, ready queues of `full.test` hold one message, nobody takes what is for
-- `later.test`.
--   WHY_DIR, WHY_TO (host:port, takes mail), WHY_MUTE (host:port, never says a word), WHY_LATER (host:port, defers)
local kumo = require 'kumo'
local DIR = os.getenv 'WHY_DIR'
local TO = { ['full.test'] = os.getenv 'WHY_MUTE', ['later.test'] = os.getenv 'WHY_LATER' }

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool { name = name, path = DIR .. '/' .. name }
  end
  if not os.getenv 'WHY_UNLOGGED' then
    kumo.configure_local_logs { log_dir = DIR .. '/logs', max_segment_duration = '1s' }
  end
  kumo.start_http_listener { listen = '127.0.0.1:0', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener { listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function(domain)
  return kumo.make_queue_config {
    retry_interval = '1h',
    max_age = '2 days',
    protocol = { smtp = { mx_list = { { name = 'mx.' .. domain, addr = TO[domain] or os.getenv 'WHY_TO' } } } },
  }
end)

kumo.on('get_egress_path_config', function(domain, source, site)
  local shared = site:find 'mx%.[ab]%.test' and { ['big-mailbox'] = '1/h,max_burst=1' } or {}
  local is_full = site:find 'mx%.full%.test'
  return kumo.make_egress_path {
    enable_tls = 'Disabled',
    prohibited_hosts = {},
    connection_limit = 1,
    max_ready = is_full and 1 or 1000,
    additional_message_rate_throttles = shared,
    smtp_auth_plain_username = is_full and 'joe' or nil,
    smtp_auth_plain_password = is_full and { key_data = 'hunter2' } or nil,
  }
end)
