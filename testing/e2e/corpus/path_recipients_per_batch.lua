-- A message to many goes in as many transactions as the batch's size asks for.
--
-- mail a@source.test to one@target.test two@target.test three@target.test
-- arrives
--   to: one@target.test, two@target.test
-- arrives
--   to: three@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { batch_handling = 'BatchByDomain' } } }
end)

kumo.on('get_queue_config', function()
  return start.queue()
end)

kumo.on('get_egress_path_config', function()
  return start.path { max_recipients_per_batch = 2 }
end)
