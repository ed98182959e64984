-- A secret comes from a file, from the script, or from an event that fetches it.
--
-- file password
-- | swordfish
-- > EHLO client.test
-- < 550 5.7.1 swordfish inline fetched:a+b
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('fetch', function(...)
  return 'fetched:' .. table.concat({ ... }, '+')
end)

kumo.on('smtp_server_ehlo', function()
  local file = kumo.secrets.load(start.dir .. '/password'):gsub('%s', '')
  local inline = kumo.secrets.load { key_data = 'inline' }
  local fetched = kumo.secrets.load { event_name = 'fetch', event_args = { 'a', 'b' } }
  kumo.reject(550, string.format('5.7.1 %s %s %s', file, inline, fetched))
end)
