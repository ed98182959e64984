-- Files are read and written without holding anybody up.
--
-- file motd.txt
-- | Be kind.
-- connect
-- < 220 *
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 550 5.7.1 Be kind. motd.txt 9
-- wrote copy: Be kind.
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function()
  local file = kumo.fs.open(start.dir .. '/motd.txt', 'r')
  local text = file:read()
  file:close()
  local copy = kumo.fs.open(start.dir .. '/copy', 'w')
  copy:write(text)
  copy:close()
  local names = kumo.fs.glob('*.txt', start.dir)
  local size = kumo.fs.metadata_for_path(start.dir .. '/motd.txt').len
  kumo.reject(550, string.format('5.7.1 %s %s %d', text:match '[^\n]*', names[1]:match '[^/]*$', size))
end)
