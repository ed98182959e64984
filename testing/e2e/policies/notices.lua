-- The policy of bounces.lua, whose senders hear of failures by way of a hook.
--   NOTICES_HANG: the hook never answers
local kumo = require 'kumo'
require 'bounces'

kumo.on('pre_init', function()
  kumo.configure_log_disposition_hook {
    name = 'ndr',
    per_record = { Bounce = { enable = true }, Expiration = { enable = true }, Any = { enable = false } },
  }
end)

-- To a crowd, which is larger than a message may have.
kumo.on('smtp_server_message_received', function(msg)
  if msg:get_first_named_header_value 'Subject' == 'crowd' then
    local crowd = {}
    for number = 1, 70000 do
      crowd[number] = 'r' .. number .. '@source.test'
    end
    local _, why = pcall(kumo.inject_message, kumo.make_message('', crowd, 'Subject: x\r\n\r\n'))
    kumo.log_error(tostring(why))
    msg:set_recipient(crowd)
  end
end)

kumo.on('log_disposition_ndr', function(msg, record)
  if os.getenv 'NOTICES_HANG' then
    kumo.log_error('asked about ' .. msg:id())
    kumo.sleep(600)
  end
  assert(msg:id() == record.id and #msg:recipient_list() >= 1)
  local report = kumo.generate_rfc3464_message({
    include_original_message = 'FullContent',
    enable_bounce = true,
    enable_expiration = true,
    reporting_mta = { mta_type = 'dns', name = 'mta.test' },
  }, msg, record)
  if not report then
    return
  end
  report:set_meta('seen', record.type)
  kumo.inject_message(report)
  local _, twice = pcall(kumo.inject_message, report)
  local _, lent = pcall(kumo.inject_message, msg)
  kumo.log_error(tostring(twice) .. '; ' .. tostring(lent))
end)
