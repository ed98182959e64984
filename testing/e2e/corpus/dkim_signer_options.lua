-- A signer signs one field more of each name than there is, where it is to over-sign, and the body as it stands, where that is to be simple.
--
-- mail a@source.test to b@target.test
-- | From: a@source.test
-- | Subject: one
-- |
-- | Hello,  you.
-- arrives
--   header DKIM-Signature: *c=relaxed/simple;*
--   header DKIM-Signature: *h=From:From:Subject:Subject;*
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
    domain = 'source.test',
    selector = 'key1',
    headers = { 'From', 'Subject' },
    key = start.dir .. '/sign.pem',
    body_canonicalization = 'Simple',
    over_sign = true,
  })
end)

start.deliver()
