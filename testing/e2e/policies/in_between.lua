-- A handler that never answers: what it is asked about is in no queue meanwhile. All mail goes to one smart host.
--   BETWEEN_DIR, BETWEEN_TO (host:port), BETWEEN_EVENT (the handler's)
local kumo = require 'kumo'
local base = require 'base'
local EVENT = os.getenv 'BETWEEN_EVENT'

kumo.on('init', function()
  base.serve(os.getenv 'BETWEEN_DIR')
end)

if EVENT == 'log_disposition_slow' then
  kumo.on('pre_init', function()
    kumo.configure_log_disposition_hook {
      name = 'slow',
      per_record = { TransientFailure = { enable = true }, Any = { enable = false } },
    }
  end)
end

if EVENT then
  kumo.on(EVENT, function()
    kumo.log_error('held in ' .. EVENT)
    kumo.sleep(600)
  end)
end

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = base.to_host(os.getenv 'BETWEEN_TO'), retry_interval = '1h' }
end)

kumo.on('get_egress_path_config', function()
  return base.path()
end)
