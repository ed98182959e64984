-- A throttle by the client's address lets so many senders in, and says when to come back.
--
-- > EHLO client.test
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RSET
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 250 *
-- > RSET
-- < 250 *
-- > MAIL FROM:<a@source.test>
-- < 451 4.7.1 1800 s, 0 of 2 left
-- logged Rejection
--   response.code: 451
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_mail_from', function(_, conn_meta)
  local ip = conn_meta:get_meta('received_from'):match '^(.*):'
  local hit = kumo.make_throttle('mail-from-' .. ip, '2/hour'):throttle()
  if hit.throttled then
    local seconds = (hit.retry_after.secs + 30) // 60 * 60
    kumo.reject(451, string.format('4.7.1 %d s, %d of %d left', seconds, hit.remaining, hit.limit))
  end
end)
