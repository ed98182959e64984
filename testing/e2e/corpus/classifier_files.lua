-- Rules may be TOML, in several files; where two match, the first file decides.
--
-- remote sink
--   . => 451 4.7.0 greylisted, come back
-- file own.toml
-- | [rules]
-- | Greylisting = ["greylisted"]
-- file all.toml
-- | [rules]
-- | TransientFailure = ["^4"]
-- mail a@source.test to b@target.test
-- logged TransientFailure
--   bounce_classification: Greylisting
-- queued 1
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.configure_bounce_classifier { files = { start.dir .. '/own.toml', start.dir .. '/all.toml' } }
end)

start.deliver()
