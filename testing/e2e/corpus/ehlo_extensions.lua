-- The list that is returned is what EHLO announces, and nothing else.
--
-- > EHLO client.test
-- < 250 mx.corpus.test Aloha client.test PIPELINING XYZZY
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { hostname = 'mx.corpus.test' } } }
end)

kumo.on('smtp_server_ehlo', function(_, _, extensions)
  local policy_utils = require 'policy-extras.policy_utils'
  assert(policy_utils.table_contains(extensions, '8BITMIME'))
  return { 'PIPELINING', 'XYZZY' }
end)
