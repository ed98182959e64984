-- A word that an option does not know ends the start.
--
-- start fails
-- stderr: *batch_handling*Sometimes*BifurcateAlways*BatchByDomain*
local kumo = require 'kumo'
local start = require 'start'

kumo.on('init', function()
  start.serve { esmtp = { { batch_handling = 'Sometimes' } } }
end)
