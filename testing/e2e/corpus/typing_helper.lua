-- A record type takes what it is declared to have, and says what it does not.
--
-- > EHLO client.test
-- < 550 5.7.1 8 false
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

local typing = require 'policy-extras.typing'

kumo.on('init', function()
  start.serve()
end)

local Limits = typing.record('Limits', { size = typing.default(typing.number, 8), names = typing.list(typing.string) })

kumo.on('smtp_server_ehlo', function()
  local limits = Limits { names = { 'a' } }
  local takes_more = pcall(Limits, { names = { 'a' }, sizes = 9 })
  kumo.reject(550, string.format('5.7.1 %d %s', limits.size, takes_more))
end)
