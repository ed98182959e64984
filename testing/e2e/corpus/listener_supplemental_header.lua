-- The supplemental header has the name that the listener gives it, and holds the metadata that it lists.
--
-- mail a@source.test to b@target.test
-- | Subject: marked
-- |
-- | Hello.
-- arrives
--   no header X-KumoRef
--   header X-Ref: eyJ*
--   header X-Read: acme b@target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    esmtp = { { trace_headers = { header_name = 'X-Ref', include_meta_names = { 'tenant' } } } },
  }
end)

kumo.on('smtp_server_message_received', function(msg)
  msg:set_meta('tenant', 'acme')
  local copy = kumo.make_message('', 'b@target.test', msg:get_data())
  copy:set_meta('tenant', 'acme')
  kumo.apply_supplemental_trace_header(copy, { header_name = 'X-Ref', include_meta_names = { 'tenant' } })
  local text = copy:get_first_named_header_value('X-Ref'):gsub('%s', '')
  local trace = kumo.serde.json_parse(kumo.encode.base64_decode(text))
  msg:append_header('X-Read', trace.tenant .. ' ' .. trace.recipient)
end)

start.deliver()
