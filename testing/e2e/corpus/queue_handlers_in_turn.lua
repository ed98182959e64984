-- The first handler of get_queue_config that answers decides; one that returns nothing passes the question on.
--
-- remote special
-- mail a@source.test to b@special.test c@other.test
-- arrives at special
--   to: b@special.test
-- arrives
--   to: c@other.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function(domain)
  if domain == 'special.test' then
    return start.queue { protocol = start.to 'special' }
  end
end)

start.deliver()
