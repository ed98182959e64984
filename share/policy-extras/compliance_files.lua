-- The files of policy-extras.compliance: read, checked, and made into options by tenant. Loaded by states that need them.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local SECTIONS = { base = true, tenant = true }
local OPTIONS = { 'mode', 'bulk', 'sources', 'ignore', 'max_message_size', 'header', 'resolver' }

local function check_block(place, options)
  for name in pairs(options) do
    if not utils.table_contains(OPTIONS, name) then
      error(string.format('%s: unknown option `%s`: %s', place, name, problems.expected(name, { table.unpack(OPTIONS) })), 0)
    end
  end
  local ok, why = pcall(kumo.compliance.check_options, options)
  if not ok then
    error(string.format('%s: %s', place, problems.reason(why)), 0)
  end
end

-- What the files say, sections and blocks by name; an error when it cannot be meant.
function mod.load(files)
  local data = { base = {}, tenant = {} }
  for _, file in ipairs(files) do
    local read = utils.load_json_or_toml_file(file)
    for section in pairs(read) do
      if not SECTIONS[section] then
        error(string.format('unknown section `%s`: expected `base` or `tenant`', section), 0)
      end
    end
    utils.recursive_merge_into(read, data)
  end
  check_block('base', data.base)
  for name, options in pairs(data.tenant) do
    check_block(string.format('tenant `%s`', name), options)
  end
  return data
end

-- The options for mail of a tenant; '' is mail of none.
function mod.options_of(data, tenant)
  local options = {}
  for name, value in pairs(data.base) do
    options[name] = value
  end
  for name, value in pairs(data.tenant[tenant] or {}) do
    options[name] = value
  end
  options.tenant = tenant
  return options
end

return mod
