-- Types of records may be left out, and written by a template.
--
-- mail a@source.test to b@target.test
-- arrives
--   to: b@target.test
-- unlogged Reception
-- logged Delivery
--   recipient: B@TARGET.TEST
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve {
    logs = {
      per_record = {
        Reception = { enable = false },
        Delivery = { template = '{"type": {{ type | tojson }}, "recipient": {{ recipient | upper | tojson }}}' },
      },
    },
  }
end)

start.deliver()
