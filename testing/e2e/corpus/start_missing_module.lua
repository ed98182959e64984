-- A module that is nowhere ends the start by its name.
--
-- start fails
-- stderr: *policy-extras.nothing*not found*
local kumo = require 'kumo'

local nothing = require 'policy-extras.nothing'

kumo.on('init', nothing.serve)
