-- The same table comes out of TOML, YAML and JSON.
--
-- > EHLO client.test
-- < 550 5.7.1 {"names":["a","b"],"size":2}
-- logged Rejection
--   response.code: 550
local kumo = require 'kumo'
local start = require 'start'

local utils = require 'policy-extras.policy_utils'

kumo.on('init', function()
  start.serve()
end)

kumo.on('smtp_server_ehlo', function()
  local toml = kumo.serde.toml_parse 'size = 2\nnames = ["a", "b"]'
  local yaml = kumo.serde.yaml_parse 'size: 2\nnames:\n  - a\n  - b\n'
  utils.assert_eq(toml, yaml)
  kumo.reject(550, '5.7.1 ' .. kumo.serde.json_encode(toml))
end)
