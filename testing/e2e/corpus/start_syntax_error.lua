-- A policy that does not compile ends the start with its line.
--
-- start fails
-- stderr: *start_syntax_error.lua:6:*
local kumo = require 'kumo'
kumo.on('init' function() end)
