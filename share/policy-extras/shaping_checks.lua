-- What `--validate` looks at in the files of policy-extras.shaping.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local VALIDATION_OPTIONS = {
  aliased_site = 'Warn', dns_fail = 'Warn', null_mx = 'Warn', provider_overlap = 'Warn', skip_remote = true,
}

-- Says what is wrong with shaping files, and with the sources they name.
function mod.validate(names, options)
  local load_options = utils.merge_into(options.validation_options or {}, utils.merge_into(VALIDATION_OPTIONS, {}))
  local ok, data = pcall(kumo.shaping.load, names, load_options)
  if not ok then
    problems.report('shaping', { problems.reason(data) })
    return
  end
  for _, warning in ipairs(data:get_warnings()) do
    print('shaping: warning: ' .. warning)
  end
  for _, contradiction in ipairs(data:get_contradictions()) do
    print('shaping: warning: ' .. contradiction)
  end
  local found = data:get_errors()
  for source, places in pairs(data:get_referenced_sources()) do
    local there, why = pcall(kumo.invoke_get_egress_source, source)
    if not there then
      found[#found + 1] = string.format('source `%s`, named by %s: %s', source, table.concat(places, ', '), problems.reason(why))
    end
  end
  problems.report('shaping', found)
end

return mod
