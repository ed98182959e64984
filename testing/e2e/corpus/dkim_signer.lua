-- A signer of the script's signs with the domain, the selector and the fields that it was given.
--
-- mail a@source.test to b@target.test
-- arrives
--   header DKIM-Signature: *a=ed25519-sha256;*d=source.test;*
--   header DKIM-Signature: *s=key1;*
--   header DKIM-Signature: *c=relaxed/relaxed;*
-- file sign.pem
-- | -----BEGIN PRIVATE KEY-----
-- | MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-- | -----END PRIVATE KEY-----
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:dkim_sign(kumo.dkim.ed25519_signer {
    self_check = true,
    domain = msg:from_header().domain,
    selector = 'key1',
    headers = { 'From', 'Subject' },
    key = start.dir .. '/sign.pem',
  })
end)

start.deliver()
