-- All handlers of pre_init run before init, in order.
--
-- > NOOP
-- < 250 *
-- wrote order: one / two / init
local kumo = require 'kumo'
local start = require 'start'

local function note(what)
  start.write(start.dir .. '/order', 'a', what .. '\n')
end

kumo.on('init', function()
  note 'init'
  start.serve()
end)

kumo.on('pre_init', function()
  note 'one'
end)

kumo.on('pre_init', function()
  note 'two'
end)
