-- Traffic shaping: what is allowed towards each destination, from shaping files.
--
-- The schema of a shaping file and what wins over what: docs/shaping.md. Files are read again in a new configuration epoch
-- and when `cache_ttl` is over. `publish` and `subscribe` name daemons that act on rules: docs/automation.md.

local kumo = require 'kumo'

local mod = { CONFIGURED = nil }

-- An operator's own default file, else the one that is carried in the program.
local DEFAULT_FILE = '/opt/kumomta/share/policy-extras/shaping.toml'
local BUILT_IN = 'postrider:shaping.toml'
local OPTIONS = {
  publish = 'table', subscribe = 'table', extra_files = 'table', no_default_files = 'boolean', cache_ttl = 'span',
  pre_filter = 'boolean', skip_log_record_types = 'table', additional_skip_log_record_types = 'table',
  tsa_queue_config = 'table', back_pressure = 'number', load_validation_options = 'table', validation_options = 'table',
  retry_shaping_data_fetch_on_populate_timeout = 'boolean', shaping_data_populate_timeout = 'span',
  allow_stale_shaping_data = 'boolean', publish_timeout = 'span', publish_pool_idle_timeout = 'span',
  publish_connection_verbose = 'boolean',
}
local function check_options(options)
  for name, value in pairs(options) do
    local expected = OPTIONS[name]
    if not expected then
      local utils = require 'policy-extras.policy_utils'
      local known = require('policy-extras.problems').expected(name, utils.table_keys(OPTIONS))
      error(string.format('policy-extras.shaping: unknown option `%s`: %s', name, known), 3)
    elseif expected == 'span' then
      local ok, why = pcall(kumo.time.parse_duration, value)
      if not ok then
        error(string.format('policy-extras.shaping: %s: %s', name, tostring(why)), 3)
      end
    elseif type(value) ~= expected then
      error(string.format('policy-extras.shaping: %s: expected a %s, found a %s', name, expected, type(value)), 3)
    end
  end
  for _, name in ipairs { 'publish', 'subscribe' } do
    local seen = {}
    for index, url in ipairs(options[name] or {}) do
      local plain = type(url) == 'string' and url:gsub('/+$', '')
      if not plain or not plain:find '^https?://[^@!?#%s]+$' or seen[plain] then
        local expected = 'expected an http URL, once, without a user, a query or a fragment'
        error(string.format('policy-extras.shaping: %s: %s: %s', name, tostring(url), expected), 3)
      end
      seen[plain] = true
      options[name][index] = plain
    end
  end
  for index, name in ipairs(options.extra_files or {}) do
    if type(name) ~= 'string' then
      error(string.format('policy-extras.shaping: extra_files[%d]: expected a path or a URL, found a %s', index, type(name)), 3)
    end
  end
  for name, value in pairs(options.tsa_queue_config or {}) do
    local known, why = require('policy-extras.queue').is_queue_config_option(name, value)
    if not known then
      error(string.format('policy-extras.shaping: tsa_queue_config: %s', why), 3)
    end
  end
end

local function default_file()
  local file = io.open(DEFAULT_FILE)
  if file then
    file:close()
    return DEFAULT_FILE
  end
  return BUILT_IN
end

local function file_names(options)
  local names = {}
  if not options.no_default_files then
    names[1] = default_file()
  end
  for _, name in ipairs(options.extra_files or {}) do
    names[#names + 1] = name
  end
  for _, url in ipairs(options.subscribe or {}) do
    names[#names + 1] = url .. '/get_config_v1/shaping.toml'
  end
  return names
end

-- Shaping from files, and what keeps it up to date. Returns what a policy hangs into its events.
function mod:setup_with_automation(options)
  if mod.CONFIGURED then
    error('policy-extras.shaping module has already been configured', 2)
  end
  check_options(options)
  local names = file_names(options)
  local function load_anew()
    return kumo.shaping.load(names, options.load_validation_options)
  end
  local load_shaping_data = kumo.memoize(load_anew, {
    name = 'policy-extras.shaping',
    keep_on_error = true,
    ttl = options.cache_ttl or '1 minute',
    capacity = 1,
    invalidate_with_epoch = true,
    populate_timeout = options.shaping_data_populate_timeout,
    retry_on_populate_timeout = options.retry_shaping_data_fetch_on_populate_timeout or false,
    allow_stale_reads = options.allow_stale_shaping_data or false,
  })
  mod.CONFIGURED = { files = names }
  -- Loaded where they are used: every state of a policy pays for what it loads.
  local publishing = #(options.publish or {}) > 0 and require 'policy-extras.tsa_publishing'
  local following = (publishing or #(options.subscribe or {}) > 0) and require 'policy-extras.tsa_following'
  if publishing then
    publishing.install(options, load_shaping_data)
  end
  if following then
    -- What is kept only at first: later that may be of other files, which a policy names that was read again since.
    following.install(load_anew, load_shaping_data, options.cache_ttl or '1 minute')
  end

  kumo.on('validate_config', function()
    require('policy-extras.shaping_checks').validate(names, options)
  end)

  return {
    load_shaping_data = load_shaping_data,
    -- What publishing and subscribing need to be started, inside of `init`.
    setup_publish = function()
      if publishing then
        publishing.start(options)
      end
      if following then
        following.start(options)
      end
    end,
    -- For kumo.on('get_egress_path_config', ...). With `skip_make` the options come as a table.
    get_egress_path_config = function(domain, egress_source, site_name, skip_make)
      local data = load_shaping_data()
      local params = data:get_egress_path_config(domain, egress_source, site_name)
      if publishing then
        publishing.hurry(domain, params, function()
          return data:get_egress_path_config('', egress_source, '')
        end)
      end
      params.refresh_strategy = params.refresh_strategy or 'Epoch'
      if skip_make then
        return params
      end
      return kumo.make_egress_path(params)
    end,
  }
end

-- Shaping from the default file and these, without automation: the handler for kumo.on('get_egress_path_config', ...).
function mod:setup(extra_files)
  return mod:setup_with_automation({ extra_files = extra_files or {} }).get_egress_path_config
end

return mod
