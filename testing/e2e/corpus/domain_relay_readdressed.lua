-- Who may send to a domain of ours may not have policy send to others for him: permission is asked again for whom policy adds.
--
-- mail a@source.test to away@ours.test
-- < 550 5.7.1 relaying not permitted *
-- mail a@source.test to alias@ours.test
-- mail a@source.test to b@ours.test
-- arrives
--   to: postmaster@ours.test
-- arrives
--   to: b@ours.test
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { relay_hosts = {} } } }
end)

kumo.on('get_listener_domain', function(domain)
  if domain == 'ours.test' then
    return kumo.make_listener_domain { relay_to = true }
  end
end)

kumo.on('smtp_server_message_received', function(msg)
  local user = msg:recipient().user
  if user == 'away' then
    msg:set_recipient 'b@elsewhere.test'
  elseif user == 'alias' then
    msg:set_recipient 'postmaster@ours.test'
  end
end)

start.deliver()
