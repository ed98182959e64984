-- A database says which recipients there are.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RCPT TO:<nobody@target.test>
-- < 550 5.1.1 unknown
-- > RCPT TO:<ann@target.test>
-- < 250 *
-- logged Rejection
--   recipient: nobody@target.test
local kumo = require 'kumo'
local start = require 'start'

local sqlite = require 'sqlite'
local FILE = start.dir .. '/users.db'

kumo.on('init', function()
  start.serve()
  local db = sqlite.open(FILE)
  db:execute 'CREATE TABLE users (name TEXT, quota INT)'
  db:execute('INSERT INTO users VALUES (?, ?)', 'ann', 7)
  db:close()
end)

kumo.on('smtp_server_rcpt_to', function(recipient)
  local rows = sqlite.open(FILE):execute('SELECT quota FROM users WHERE name = :name', { name = recipient.user })
  if type(rows) ~= 'table' or rows[1] ~= 7 then
    kumo.reject(550, '5.1.1 unknown')
  end
end)
