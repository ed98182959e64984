-- The files of policy-extras.dkim_sign: read, checked, and made into signers. Loaded by states that make some.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'
local utils = require 'policy-extras.policy_utils'

local mod = {}

local KEY_FOLDER = '/opt/kumomta/etc/dkim'
local SECTIONS = { base = true, domain = true, signature = true }
local SIGNATURE_OPTIONS = {
  'selector', 'headers', 'policy', 'algo', 'expiration', 'filename', 'header_canonicalization', 'body_canonicalization',
  'over_sign', 'domain', 'self_check', 'dual', 'ed25519_selector', 'ed25519_filename',
}
local BASE_OPTIONS = {
  'selector', 'headers', 'policy', 'expiration', 'header_canonicalization', 'body_canonicalization', 'over_sign',
  'additional_signatures', 'vault_mount', 'vault_path_prefix', 'self_check', 'dual',
}

local VALUES = { policy = { 'Always', 'OnlyIfMissingDomainBlock' }, algo = { 'ed25519', 'sha256' } }

local function check_options(place, options, known)
  for name, values in pairs(VALUES) do
    if options[name] ~= nil and not utils.table_contains(values, options[name]) then
      local value = tostring(options[name])
      error(string.format('%s: %s: `%s`: %s', place, name, value, problems.expected(value, { table.unpack(values) })), 0)
    end
  end
  for name in pairs(options) do
    if not utils.table_contains(known, name) then
      error(string.format('%s: unknown option `%s`: %s', place, name, problems.expected(name, { table.unpack(known) })), 0)
    end
  end
end

-- What the files say, sections and blocks by name.
function mod.load(files)
  local data = { base = {}, domain = {}, signature = {} }
  for _, file in ipairs(files) do
    local read = utils.load_json_or_toml_file(file)
    for section in pairs(read) do
      if not SECTIONS[section] then
        error(string.format('unknown section `%s`: expected `base`, `domain` or `signature`', section), 0)
      end
    end
    utils.recursive_merge_into(read, data)
  end
  check_options('base', data.base, BASE_OPTIONS)
  for _, section in ipairs { 'domain', 'signature' } do
    for name, options in pairs(data[section]) do
      check_options(string.format('%s `%s`', section, name), options, SIGNATURE_OPTIONS)
    end
  end
  for _, name in ipairs(data.base.additional_signatures or {}) do
    local signature = data.signature[name]
    if not signature then
      error(string.format('base: additional_signatures: signature `%s` is not defined', name), 0)
    elseif not signature.domain then
      error(string.format('signature `%s`: `domain` is missing', name), 0)
    end
  end
  return data
end

local function key_of(base, options, domain, selector)
  if base.vault_mount then
    local default = string.format('%s/%s/%s', base.vault_path_prefix or 'dkim', domain, selector)
    return { vault_mount = base.vault_mount, vault_path = options.filename or default }
  end
  return options.filename or string.format('%s/%s/%s.key', KEY_FOLDER, domain, selector)
end

local function selector_of(base, options, domain)
  local selector = options.selector or base.selector
  if not selector then
    error(string.format('domain `%s`: neither the domain nor base has a selector', domain), 0)
  end
  return selector
end

-- The signer that a block asks for, for mail of `domain`.
local function make_signer(base, options, domain)
  local selector = selector_of(base, options, domain)
  local function either(name)
    if options[name] ~= nil then
      return options[name]
    end
    return base[name]
  end
  local make = options.algo == 'ed25519' and kumo.dkim.ed25519_signer or kumo.dkim.rsa_sha256_signer
  return make {
    domain = domain,
    selector = selector,
    headers = either 'headers',
    expiration = either 'expiration',
    header_canonicalization = either 'header_canonicalization',
    body_canonicalization = either 'body_canonicalization',
    over_sign = either 'over_sign',
    self_check = either 'self_check',
    key = key_of(base, options, domain, selector),
  }
end

-- A block whose own key is an Ed25519 one has no use for the `dual` of base.
local function is_dual(base, options)
  if options.dual ~= nil then
    return options.dual
  end
  return base.dual and options.algo ~= 'ed25519'
end

-- The block of the Ed25519 signature that stands beside that of a block.
local function second_of(base, options, domain)
  local second = {}
  for name, value in pairs(options) do
    second[name] = value
  end
  second.algo = 'ed25519'
  second.selector = options.ed25519_selector or selector_of(base, options, domain) .. '-ed25519'
  second.filename = options.ed25519_filename
  return second
end

-- The signers that a block asks for: with `dual` an Ed25519 one too. That signs first and so comes below: receivers that know
-- RSA only, or look at one signature, find the other.
local function make_signers(base, options, domain)
  local signer = make_signer(base, options, domain)
  if not is_dual(base, options) then
    return { signer }
  elseif options.algo == 'ed25519' then
    error(string.format('domain `%s`: with `dual` the key of the block is the RSA key: leave `algo` out', domain), 0)
  end
  return { make_signer(base, second_of(base, options, domain), domain), signer }
end

-- What signs mail of an author of `domain`, in this order; false if nothing does.
function mod.signers_of(data, domain)
  local signers = {}
  local function add(options, of)
    local made = make_signers(data.base, options, of)
    table.move(made, 1, #made, #signers + 1, signers)
  end
  local options = data.domains[domain]
  if options then
    add(options, domain)
  end
  for _, name in ipairs(data.base.additional_signatures or {}) do
    local signature = data.signature[name]
    if signature.policy ~= 'OnlyIfMissingDomainBlock' or not options then
      add(signature, signature.domain)
    end
  end
  return #signers > 0 and signers
end

-- The signers of a wildcard whose keys are named; other keys are looked for by the domain of each message.
local function make_named(base, options, domain)
  local is_both = is_dual(base, options)
  if options.algo == 'ed25519' and options.dual then
    -- It says what is wrong.
    return make_signers(base, options, domain)
  elseif options.filename and (options.ed25519_filename or not is_both) then
    return make_signers(base, options, domain)
  elseif options.filename then
    return { make_signer(base, options, domain) }
  elseif options.ed25519_filename and is_both then
    return { make_signer(base, second_of(base, options, domain), domain) }
  end
end

-- What is wrong with them, a line each.
function mod.find_problems(data)
  local found = {}
  local function check(place, options, domain, make)
    local ok, why = pcall(make or make_signers, data.base, options, domain)
    if not ok then
      found[#found + 1] = place .. ': ' .. problems.reason(why)
    end
  end
  for name, options in pairs(data.domain) do
    local make = name:find('*', 1, true) and make_named
    check(string.format('domain `%s`', name), options, (name:gsub('%*%.?', '')), make)
  end
  for name, options in pairs(data.signature) do
    check(string.format('signature `%s`', name), options, options.domain)
  end
  return found
end

return mod
