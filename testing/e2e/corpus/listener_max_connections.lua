-- One connection more than the listener takes hears 421 in place of a greeting.
--
-- connect
-- connect
-- < 421 4.3.2 mx.corpus.test too many concurrent sessions. Try later
-- closed
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test', max_connections = 1 } } }
end)
