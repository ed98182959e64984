-- The greeting and the first line of EHLO's reply have the listener's name, and the greeting its banner.
--
-- connect
-- < 220 mx.corpus.test ready when you are
-- > EHLO client.test
-- < 250 mx.corpus.test Aloha client.test *
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test', banner = 'ready when you are' } } }
end)
