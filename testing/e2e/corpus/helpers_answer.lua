-- Helpers say what options there are for queues, and what shaping files come to.
--
-- > EHLO client.test
-- < 550 5.7.1 true false retry_interval of.domain.test of.default.test
-- logged Rejection
--   response.code: 550
-- file shaping.toml
-- | ["default"]
-- | enable_tls = "Disabled"
-- | ehlo_domain = "of.default.test"
-- |
-- | ["target.test"]
-- | mx_rollup = false
-- | ehlo_domain = "of.domain.test"
local kumo = require 'kumo'
local start = require 'start'
local queue = require 'policy-extras.queue'
local shaping = require 'policy-extras.shaping'

kumo.on('init', function()
  start.serve()
end)

local shaper = shaping:setup_with_automation {
  no_default_files = true,
  extra_files = { start.dir .. '/shaping.toml' },
}

kumo.on('smtp_server_ehlo', function()
  local known = queue.is_queue_config_option('retry_interval', '1m')
  local other, why = queue.is_queue_config_option('retry_intervall', '1m')
  local meant = why:match 'did you mean `(.-)`'
  local data = shaper.load_shaping_data()
  local of = data:get_egress_path_config('target.test', 'unspecified', 'target.test')
  local elsewhere = data:get_egress_path_config('other.test', 'unspecified', 'other.test')
  kumo.reject(550, string.format('5.7.1 %s %s %s %s %s', known, other, meant, of.ehlo_domain, elsewhere.ehlo_domain))
end)
