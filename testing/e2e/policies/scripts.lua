-- What scripts share and wait for while the program serves.
--   SCRIPTS_DIR
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'SCRIPTS_DIR')
end)

local asked = kumo.counter_series.define { name = 'asked', num_buckets = 2, bucket_size = '1h' }
local computed = kumo.counter_series.define { name = 'computed', num_buckets = 2, bucket_size = '1h' }
-- What is computed waits until somebody says so.
local gate = kumo.mpsc.define 'gate'
local slow_answer = kumo.memoize(function(name)
  computed:increment(1)
  gate:recv()
  return { name = name, at = { kumo.time.now().unix_timestamp_millis } }
end, { name = 'slow', ttl = '1h', capacity = 10 })

kumo.on('smtp_server_mail_from', function(sender)
  if sender.user == 'open' then
    gate:send(true)
    kumo.reject(450, 'open')
  elseif sender.user == 'count' then
    kumo.reject(450, tostring(asked:sum()))
  end
  asked:increment(1)
  local timer <close> = kumo.time.start_timer('mail from')
  local answer = slow_answer(sender.user)
  kumo.reject(450, string.format('%s %d %d', answer.name, answer.at[1], computed:sum()))
end)
