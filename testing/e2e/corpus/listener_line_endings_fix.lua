-- A line feed by itself is made a line end before policy sees the content.
--
-- mail a@source.test to b@target.test
-- | Subject: bare
-- |
-- | one\ntwo\nthree
-- arrives
--   body: one / two / three
--   header X-Bare: none
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { invalid_line_endings = 'Fix' } } }
end)

kumo.on('smtp_server_data', function(msg)
  local bare = msg:get_data():find '[^\r]\n'
  msg:append_header('X-Bare', bare and 'some' or 'none')
end)

start.deliver()
