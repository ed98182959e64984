-- Policy makes of a refusal for good one for now, and the log says so.
--
-- remote sink
--   first . => 550 5.2.2 over quota
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- logged TransientFailure
--   response.code: 450
--   response.content: over quota (kumomta: status was rewritten from 550 -> 450)
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_client_rewrite_delivery_status', function(response)
  if response:find 'over quota' then
    return 450
  end
end)

kumo.on('get_queue_config', function()
  return start.queue { retry_interval = '1s' }
end)

kumo.on('get_egress_path_config', function()
  return start.path()
end)
