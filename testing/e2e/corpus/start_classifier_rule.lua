-- A bounce rule that does not compile ends the start by file, class and rule.
--
-- start fails
-- stderr: *rules.toml*Broken*(unclosed*
-- file rules.toml
-- | [rules]
-- | Broken = ["(unclosed"]
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve()
  kumo.configure_bounce_classifier { files = { start.dir .. '/rules.toml' } }
end)
