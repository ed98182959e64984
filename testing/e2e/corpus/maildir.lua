-- A queue may deliver into Maildirs, one for each recipient.
--
-- mail a@source.test to one@target.test two@target.test
-- | Subject: kept
-- |
-- | Hello.
-- wrote box/one/new/*: *Subject: kept /  / Hello.
-- wrote box/two/new/*: *Subject: kept /  / Hello.
-- logged Delivery
--   recipient: one@target.test
--   delivery_protocol: Maildir
-- logged Delivery
--   recipient: two@target.test
--   site: *@maildir:*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('get_queue_config', function()
  return kumo.make_queue_config { protocol = { maildir_path = start.dir .. '/box/{{ local_part }}' } }
end)
