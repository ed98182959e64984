-- Sources and pools from TOML or JSON files.
--
--   [source."ip-1"]                 options of kumo.make_egress_source
--   [pool."shared"."ip-1"]          weight = 3
--
-- Files, or tables of the same shape, are read in order; later ones add to earlier ones. They are read again in a new
-- configuration epoch.

local kumo = require 'kumo'
local utils = require 'policy-extras.policy_utils'

local mod = { CONFIGURED = nil }

-- Has sources and pools come from these files.
function mod:setup(files)
  if mod.CONFIGURED then
    error('policy-extras.sources module has already been configured', 2)
  end
  utils.check_files('sources', files)
  local get_data = kumo.memoize(function()
    return require('policy-extras.sources_files').load(files)
  end, { name = 'policy-extras.sources', keep_on_error = true, ttl = '5 minutes', capacity = 1, invalidate_with_epoch = true })
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
    return kumo.make_egress_pool(require('policy-extras.sources_files').pool_params(name, members))
  end)

  kumo.on('validate_config', function()
    local problems = require 'policy-extras.problems'
    local read = require 'policy-extras.sources_files'
    local ok, data = pcall(read.load, files)
    problems.report('sources', ok and read.find_problems(data) or { problems.reason(data) })
  end)
end

return mod
