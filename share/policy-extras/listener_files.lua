-- The files of policy-extras.listener_domains: read and checked. Loaded by states that read them.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

-- What the files say: domains by listener, and maps of them.
function mod.load(files)
  local by_listener = { ['*'] = {} }
  for _, file in ipairs(files) do
    for name, options in pairs(utils.load_json_or_toml_file(file)) do
      if name == 'listener' then
        for listener, domains in pairs(options) do
          by_listener[listener] = utils.recursive_merge_into(domains, by_listener[listener] or {})
        end
      else
        by_listener['*'][name] = utils.recursive_merge_into(options, by_listener['*'][name] or {})
      end
    end
  end
  local maps = {}
  for listener, domains in pairs(by_listener) do
    local folded = {}
    for name, options in pairs(domains) do
      folded[name:lower()] = options
    end
    maps[listener] = kumo.domain_map.new(folded)
  end
  return { maps = maps, default = by_listener['*']['*'], domains = by_listener }
end

-- What is wrong with them, a line each.
function mod.find_problems(data)
  local found = {}
  for listener, domains in pairs(data.domains) do
    for name, options in pairs(domains) do
      local place = string.format('listener `%s`, domain `%s`', listener, name)
      local users = options.relay_from_authz
      for _, user in pairs(type(users) == 'table' and users or { users }) do
        if type(users) ~= 'table' or type(user) ~= 'string' then
          found[#found + 1] = place .. ': relay_from_authz: expected a list of strings'
        end
      end
      local without_authz = utils.merge_into(options, {})
      without_authz.relay_from_authz = nil
      local ok, why = pcall(kumo.make_listener_domain, without_authz)
      if not ok then
        found[#found + 1] = place .. ': ' .. problems.reason(why)
      end
    end
  end
  return found
end

return mod
