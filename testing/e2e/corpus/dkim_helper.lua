-- The DKIM helper signs by the author's domain, in any case of letters, and leaves other mail as it is.
--
-- mail a@source.test to signed@target.test
-- | From: <news@Brand.test>
-- |
-- | Hello.
-- mail a@source.test to unsigned@target.test
-- | From: <news@other.test>
-- |
-- | Hello.
-- arrives
--   to: signed@target.test
--   header DKIM-Signature: *d=brand.test;*
--   header DKIM-Signature: *s=brand1;*
-- arrives
--   to: unsigned@target.test
--   no header DKIM-Signature
-- file sign.pem
-- | -----BEGIN PRIVATE KEY-----
-- | MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-- | -----END PRIVATE KEY-----
local kumo = require 'kumo'
local start = require 'start'

local dkim_sign = require 'policy-extras.dkim_sign'

kumo.on('init', function()
  start.serve()
end)

local sign = dkim_sign:setup {
  {
    base = { self_check = true, selector = 'unused', headers = { 'From', 'Subject' } },
    domain = { ['brand.test'] = { selector = 'brand1', algo = 'ed25519', filename = start.dir .. '/sign.pem' } },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  sign(msg)
end)

start.deliver()
