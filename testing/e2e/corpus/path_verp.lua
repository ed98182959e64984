-- With VERP delimiters the sender on the wire names the recipient, and the log has the message's own.
--
-- mail news@lists.test to ann@home.test
-- arrives
--   from: news+ann=home.test@lists.test
-- logged Delivery
--   sender: news@lists.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { verp_delimiters = '+=' }
end)
