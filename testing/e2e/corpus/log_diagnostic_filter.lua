-- What the diagnostic log has is for the policy to say, at its start and in handlers; for operators too, whose filter has to be one.
--
-- http POST /api/admin/set_diagnostic_log_filter/v1
-- | {"filter": "lua=sometimes"}
-- < 422 Error: /filter: filter `lua=sometimes`: *
-- > EHLO quiet.test
-- < 250 *
-- > EHLO loud.test
-- < 250 *
-- http POST /api/admin/spool-compact/v1
-- | {"name": "data"}
-- < 200 *
-- http POST /api/admin/spool-compact/v1
-- | {"name": "other"}
-- < 404 *
-- stderr: *loud.test is told
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  kumo.set_diagnostic_log_filter 'lua=error'
  start.serve()
end)

kumo.on('smtp_server_ehlo', function(domain)
  if domain == 'loud.test' then
    kumo.set_diagnostic_log_filter 'lua=info'
  end
  kumo.log_info(domain .. ' is told')
end)
