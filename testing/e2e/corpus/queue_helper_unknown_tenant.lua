-- A tenant that is not defined is refused by name.
--
-- mail a@source.test to b@target.test
-- | X-Tenant: nobody
-- |
-- | Hello.
-- < 500 tenant 'nobody' specified by 'X-Tenant' header is not defined in your queue config
-- logged Rejection
--   response.code: 500
local kumo = require 'kumo'
local start = require 'start'

local queue_module = require 'policy-extras.queue'

kumo.on('init', function()
  start.serve()
end)

local queue_helper = queue_module:setup { { tenant_header = 'X-Tenant', tenant = { acme = {} } } }

kumo.on('smtp_server_message_received', function(msg)
  queue_helper:apply(msg)
end)
