-- A list of senders in a JSON file, comments and all, decides who is refused.
--
-- file senders.json
-- | # who we do not want
-- | {"denied": ["spam@source.test"]} // so far
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<spam@source.test>
-- < 550 5.7.1 on the list
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- logged Rejection
--   sender: spam@source.test
local kumo = require 'kumo'
local start = require 'start'

local utils = require 'policy-extras.policy_utils'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(sender)
  local senders = kumo.serde.json_load(start.dir .. '/senders.json')
  if utils.table_contains(senders.denied, sender.email) then
    kumo.reject(550, '5.7.1 on the list')
  end
end)
