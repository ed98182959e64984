-- A request with a field that nobody knows is refused by the name of the field.
--
-- http POST /api/inject/v1
-- | {"envelope_sender": "a@source.test", "recipients": [], "contents": "x"}
-- < 422 *contents*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
end)
