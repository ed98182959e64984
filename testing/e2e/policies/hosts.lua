-- Two smart hosts in order, retries far away, a log segment a second.
--   HOSTS_RATE: max_connection_rate
--   HOSTS_DIR, HOSTS_FIRST and HOSTS_SECOND (host:port), HOSTS_STRATEGY (reconnect_strategy), HOSTS_TRY_NEXT ("yes" or not)
local kumo = require 'kumo'
local base = require 'base'
local DIR = os.getenv 'HOSTS_DIR'

kumo.on('init', function()
  base.serve(DIR)
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config {
    protocol = {
      smtp = {
        mx_list = {
          { name = 'first.test', addr = os.getenv 'HOSTS_FIRST' },
          { name = 'second.test', addr = os.getenv 'HOSTS_SECOND' },
        },
      },
    },
    retry_interval = '1h',
  }
end)

kumo.on('get_egress_path_config', function()
  return base.path {
    connection_limit = 1,
    max_connection_rate = os.getenv 'HOSTS_RATE',
    reconnect_strategy = os.getenv 'HOSTS_STRATEGY',
    try_next_host_on_transport_error = os.getenv 'HOSTS_TRY_NEXT' == 'yes',
  }
end)

kumo.on('requeue_message', function(_, response)
  base.write(DIR .. '/requeued', 'a', response .. '\n')
end)
