-- A client that says nothing hears 421 and is left.
--
-- connect
-- < 220 *
-- < 421 4.3.2 mx.corpus.test idle too long
-- closed
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test', client_timeout = '1s' } } }
end)
