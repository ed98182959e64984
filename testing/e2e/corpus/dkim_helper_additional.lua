-- Further signatures are made for all mail, or only where the domain has none of its own.
--
-- mail a@source.test to own@target.test
-- | From: <news@brand.test>
-- |
-- | Hello.
-- mail a@source.test to none@target.test
-- | From: <news@other.test>
-- |
-- | Hello.
-- arrives
--   to: own@target.test
--   header DKIM-Signature: *d=brand.test;*
--   header DKIM-Signature: *d=platform.test;*
--   header X-Signatures: 2
-- arrives
--   to: none@target.test
--   header DKIM-Signature: *d=platform.test;*
--   header DKIM-Signature: *d=fallback.test;*
--   header X-Signatures: 2
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

local function with_key(options)
  return start.over({ algo = 'ed25519', filename = start.dir .. '/sign.pem' }, options)
end

local sign = dkim_sign:setup {
  {
    base = { self_check = true, selector = 'key1', headers = { 'From' }, additional_signatures = { 'all', 'fallback' } },
    domain = { ['brand.test'] = with_key {} },
    signature = {
      all = with_key { domain = 'platform.test', policy = 'Always' },
      fallback = with_key { domain = 'fallback.test', policy = 'OnlyIfMissingDomainBlock' },
    },
  },
}

kumo.on('smtp_server_message_received', function(msg)
  sign(msg)
  msg:append_header('X-Signatures', tostring(#msg:get_all_named_header_values 'DKIM-Signature'))
end)

start.deliver()
