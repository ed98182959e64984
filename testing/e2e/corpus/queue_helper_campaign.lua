-- The queue helper takes the campaign from a header field, and removes that where it is told to.
--
-- mail a@source.test to b@target.test
-- | X-Campaign: spring
-- |
-- | Hello.
-- arrives
--   no header X-Campaign
-- logged Delivery
--   queue: spring:@target.test
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup {
  {
    campaign_header = 'X-Campaign',
    remove_campaign_header = true,
    queue = { default = { protocol = start.to 'sink' } },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
