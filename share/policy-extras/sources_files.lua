-- The files of policy-extras.sources: read, checked, and made into pools. Loaded by states that do so.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

-- A file in which somebody mistyped `source` or `pool` would define nothing, and say nothing of it.
local function check_keys(file, data)
  for key in pairs(data) do
    if key ~= 'source' and key ~= 'pool' then
      error(string.format('%s: unknown key `%s`: expected `source` or `pool`', file, key), 0)
    end
  end
end

-- What the files say: options of sources, members of pools.
function mod.load(files)
  local all = { source = {}, pool = {} }
  for _, file in ipairs(files) do
    local data = utils.load_json_or_toml_file(file)
    check_keys(type(file) == 'string' and file or 'sources', data)
    for name, options in pairs(data.source or {}) do
      all.source[name] = utils.merge_into(options, all.source[name] or { name = name })
    end
    for name, members in pairs(data.pool or {}) do
      all.pool[name] = utils.merge_into(members, all.pool[name] or {})
    end
  end
  return all
end

-- What kumo.make_egress_pool takes, sources in order, so that every state makes the same pool.
function mod.pool_params(name, members)
  local names = utils.table_keys(members)
  table.sort(names)
  local entries = {}
  for _, source in ipairs(names) do
    entries[#entries + 1] = utils.merge_into(members[source], { name = source })
  end
  return { name = name, entries = entries }
end

-- What is wrong with the data, a line each.
function mod.find_problems(data)
  local found = {}
  local function check(what, make, params)
    local ok, why = pcall(make, params)
    if not ok then
      found[#found + 1] = string.format('%s: %s', what, problems.reason(why))
    end
  end
  for name, options in pairs(data.source) do
    check(string.format('source `%s`', name), kumo.make_egress_source, options)
  end
  for name, members in pairs(data.pool) do
    check(string.format('pool `%s`', name), kumo.make_egress_pool, mod.pool_params(name, members))
    for source in pairs(members) do
      if not data.source[source] then
        found[#found + 1] = string.format('pool `%s`: source `%s` is not defined', name, source)
      end
    end
  end
  return found
end

return mod
