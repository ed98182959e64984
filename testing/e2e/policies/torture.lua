-- A relay to one smart host with short retries, for tests that kill it, fill its disk or break its disk's promises.
--   TORTURE_LISTEN and TORTURE_TO (host:port), TORTURE_DIR (spool and logs), TORTURE_LOGS (logs, when elsewhere),
--   TORTURE_KIND (spool kind), TORTURE_STUCK (retry interval of mail that is stuck), TORTURE_MIN_FREE (the spool's
--   min_free_space and min_free_inodes)
local kumo = require 'kumo'
local DIR = os.getenv 'TORTURE_DIR'

kumo.on('init', function()
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool {
      name = name,
      path = DIR .. '/' .. name,
      kind = os.getenv 'TORTURE_KIND',
      -- a small disk is to be filled to its end, if nothing else is said
      min_free_space = os.getenv 'TORTURE_MIN_FREE' or '0',
      min_free_inodes = os.getenv 'TORTURE_MIN_FREE' or '0',
    }
  end
  kumo.configure_local_logs {
    log_dir = os.getenv 'TORTURE_LOGS' or (DIR .. '/logs'),
    max_segment_duration = '1s',
    min_free_space = '0',
    min_free_inodes = '0',
  }
  kumo.start_http_listener { listen = '127.0.0.1:0', trusted_hosts = { '127.0.0.1' } }
  kumo.start_esmtp_listener { listen = os.getenv 'TORTURE_LISTEN', hostname = 'relay.test', relay_hosts = { '127.0.0.1' } }
end)

kumo.on('get_queue_config', function(domain)
  -- what is stuck is tried less often: there may be thousands of it
  local every = domain == 'stuck.test' and (os.getenv 'TORTURE_STUCK' or '2s') or '1s'
  return kumo.make_queue_config {
    protocol = { smtp = { mx_list = { { name = 'receiver.test', addr = os.getenv 'TORTURE_TO' } } } },
    retry_interval = every,
    max_retry_interval = every,
  }
end)

kumo.on('get_egress_path_config', function()
  return kumo.make_egress_path { enable_tls = 'Disabled', prohibited_hosts = {}, max_ready = 100000 }
end)
