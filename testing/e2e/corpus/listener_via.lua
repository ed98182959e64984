-- Options by the address that the client connected to.
--
-- connect 1
-- < 220 * first
-- connect 2
-- < 220 * second
local kumo = require 'kumo'
local start = require 'start'

local via = { ['127.0.0.1'] = { banner = 'first' }, ['127.0.0.2'] = { banner = 'second' } }

kumo.on('init', function()
  start.serve { esmtp = { { via = via }, { listen = '127.0.0.2:0', via = via } } }
end)
