-- A relay to one smart host with short retries, for tests that kill it, fill its disk or break its disk's promises.
--   TORTURE_LISTEN and TORTURE_TO (host:port), TORTURE_DIR (spool and logs), TORTURE_LOGS (logs, when elsewhere),
--   TORTURE_KIND (spool kind), TORTURE_STUCK (retry interval of mail that is stuck), TORTURE_MIN_FREE (the spool's
--   min_free_space and min_free_inodes)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'TORTURE_DIR'

kumo.on('init', function()
  -- a small disk is to be filled to its end, if nothing else is said
  local min_free = os.getenv 'TORTURE_MIN_FREE' or '0'
  base.serve(DIR, {
    spool = { kind = os.getenv 'TORTURE_KIND', min_free_space = min_free, min_free_inodes = min_free },
    logs = { log_dir = os.getenv 'TORTURE_LOGS', min_free_space = '0', min_free_inodes = '0' },
    http = { trusted_hosts = { '127.0.0.1' } },
    esmtp = { { listen = os.getenv 'TORTURE_LISTEN', hostname = 'relay.test' } },
  })
end)

kumo.on('get_queue_config', function(domain)
  -- what is stuck is tried less often: there may be thousands of it
  local every = domain == 'stuck.test' and (os.getenv 'TORTURE_STUCK' or '2s') or '1s'
  return kumo.make_queue_config {
    protocol = base.to_host(os.getenv 'TORTURE_TO', 'receiver.test'),
    retry_interval = every,
    max_retry_interval = every,
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path { max_ready = 100000 }
end)
