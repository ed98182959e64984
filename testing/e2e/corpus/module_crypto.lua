-- What was encrypted with a key is read with it, and with no other.
--
-- > EHLO client.test
-- < 550 5.7.1 secret true
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_ehlo', function()
  local key, other = { key_data = 'sixteen octets..' }, { key_data = 'sixteen others..' }
  local sealed = kumo.crypto.aes_encrypt_block('Cbc', 'secret', { key = key }).bytes
  local opened = kumo.crypto.aes_decrypt_block('Cbc', sealed, { key = key })
  local ok, text = pcall(kumo.crypto.aes_decrypt_block, 'Cbc', sealed, { key = other })
  kumo.reject(550, string.format('5.7.1 %s %s', opened, not ok or text ~= 'secret'))
end)
