-- Listeners are started in init and nowhere else.
--
-- start fails
-- stderr: *start_esmtp_listener*init*
local kumo = require 'kumo'

kumo.start_esmtp_listener { listen = '127.0.0.1:0' }
