-- Sources and pools from TOML or JSON files.
--
--   [source."ip-1"]                 options of kumo.make_egress_source
--   [pool."shared"."ip-1"]          weight = 3
--
-- Files, or tables of the same shape, are read in order; later ones add to earlier ones. They are read again in a new
-- configuration epoch.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

-- A file in which somebody mistyped `source` or `pool` would define nothing, and say nothing of it.
local function check_keys(file, data)
  for key in pairs(data) do
    if key ~= 'source' and key ~= 'pool' then
      error(string.format('%s: unknown key `%s`: expected `source` or `pool`', file, key), 0)
    end
  end
end

local function load(files)
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
local function pool_params(name, members)
  local names = utils.table_keys(members)
  table.sort(names)
  local entries = {}
  for _, source in ipairs(names) do
    entries[#entries + 1] = utils.merge_into(members[source], { name = source })
  end
  return { name = name, entries = entries }
end

-- What is wrong with the data, a line each.
local function find_problems(data)
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
    check(string.format('pool `%s`', name), kumo.make_egress_pool, pool_params(name, members))
    for source in pairs(members) do
      if not data.source[source] then
        found[#found + 1] = string.format('pool `%s`: source `%s` is not defined', name, source)
      end
    end
  end
  return found
end

-- Has sources and pools come from these files.
function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.sources module has already been configured', 2)
  end
  local get_data = kumo.memoize(function()
    return load(files)
  end, { name = 'policy-extras.sources', ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
  mod.CONFIGURED = { files = files, get_data = get_data }

  kumo.on('get_egress_source', function(name)
    local options = get_data().source[name]
    if not options then
      error(string.format('source `%s` is not defined in the files of policy-extras.sources', name), 0)
    end
    return kumo.make_egress_source(options)
  end)

  kumo.on('get_egress_pool', function(name)
    local members = get_data().pool[name]
    if not members then
      error(string.format('pool `%s` is not defined in the files of policy-extras.sources', name), 0)
    end
    return kumo.make_egress_pool(pool_params(name, members))
  end)

  kumo.on('validate_config', function()
    local ok, data = pcall(load, files)
    problems.report('sources', ok and find_problems(data) or { problems.reason(data) })
  end)
end

return mod
