-- A queue is named by campaign, tenant and domain, in lower case; each part may be missing.
--
-- mail a@source.test to both@Target.test tenant@Target.test campaign@Target.test none@Target.test
-- arrives
--   to: both@Target.test
-- arrives
--   to: tenant@Target.test
-- arrives
--   to: campaign@Target.test
-- arrives
--   to: none@Target.test
-- logged Delivery
--   recipient: both@Target.test
--   queue: spring:acme@target.test
-- logged Delivery
--   recipient: tenant@Target.test
--   queue: acme@target.test
-- logged Delivery
--   recipient: campaign@Target.test
--   queue: spring:@target.test
-- logged Delivery
--   recipient: none@Target.test
--   queue: target.test
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_message_received', function(msg)
  local user = msg:recipient().user
  if user == 'both' or user == 'tenant' then
    msg:set_meta('tenant', 'acme')
  end
  if user == 'both' or user == 'campaign' then
    msg:set_meta('campaign', 'spring')
  end
end)

start.deliver()
