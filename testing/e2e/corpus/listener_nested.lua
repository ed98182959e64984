-- Options for a client's address may hold others for the address it connected to; metadata are merged key by key.
--
-- connect
-- < 220 * both
-- > EHLO client.test
-- < 550 5.7.1 base peer via
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = {
      {
        meta = { a = 'base', b = 'base', c = 'base' },
        peer = {
          ['127.0.0.0/8'] = {
            meta = { b = 'peer', c = 'peer' },
            via = { ['127.0.0.1'] = { meta = { c = 'via' }, banner = 'both' } },
          },
        },
      },
    },
  }
end)

kumo.on('smtp_server_ehlo', function(_, conn_meta)
  local words = { conn_meta:get_meta 'a', conn_meta:get_meta 'b', conn_meta:get_meta 'c' }
  kumo.reject(550, '5.7.1 ' .. table.concat(words, ' '))
end)
