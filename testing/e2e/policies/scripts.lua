-- What scripts share and wait for while the program serves.
--   SCRIPTS_DIR
local kumo = require 'kumo'
local base = require 'base'

kumo.on('init', function()
  base.serve(os.getenv 'SCRIPTS_DIR')
end)

local computed = kumo.counter_series.define { name = 'computed', num_buckets = 2, bucket_size = '1h' }
local slow_answer = kumo.memoize(function(name)
  computed:increment(1)
  kumo.time.sleep(0.2)
  return { name = name, at = { kumo.time.now().unix_timestamp_millis } }
end, { name = 'slow', ttl = '1h', capacity = 10 })

kumo.on('smtp_server_mail_from', function(sender)
  local timer <close> = kumo.time.start_timer('mail from')
  local answer = slow_answer(sender.user)
  kumo.reject(450, string.format('%s %d %d', answer.name, answer.at[1], computed:sum()))
end)
