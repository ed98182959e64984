-- `good.test` goes to a sink; every other domain to a server that takes connections and says nothing.
--   TARPIT_DIR, TARPIT_GOOD (host:port), TARPIT_SILENT (host:port), TARPIT_FEEDBACK (set: destinations tell what they bear)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'TARPIT_DIR'
local FEEDBACK = os.getenv 'TARPIT_FEEDBACK'
  and { initial = 2, failures_before_suspension = 3, suspension = '1 hour' }

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function(domain)
  local addr = os.getenv(domain == 'good.test' and 'TARPIT_GOOD' or 'TARPIT_SILENT')
  return kumo.make_queue_config { protocol = base.to_host(addr, 'mx.' .. domain) }
end)

kumo.on('get_egress_path_config', function()
  return base.path { concurrency_feedback = FEEDBACK, connect_timeout = '10m', banner_timeout = '10m' }
end)
