-- A domain's block may route its mail as another's, wildcards included.
--
-- mail a@source.test to b@below.target.test
-- arrives
--   to: b@below.target.test
--   ehlo: for.relay.test
-- logged Delivery
--   queue: below.target.test!relay.test
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    queue = {
      default = { protocol = start.to 'sink' },
      ['*.target.test'] = { routing_domain = 'relay.test' },
    },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function(routing_domain)
  return start.path { ehlo_domain = 'for.' .. routing_domain }
end)
