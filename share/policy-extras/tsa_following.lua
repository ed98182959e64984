-- What traffic shaping daemons decide, followed and carried out: a part of policy-extras.shaping.
--
-- A daemon says what is in force when a node comes, then what comes about; the node gives orders as an operator would, which end
-- by themselves. Options that rules have set come as a shaping file instead.

local kumo = require 'kumo'
local problems = require 'policy-extras.problems'

local mod = {}

-- By the name of what a daemon says: which orders carry it out, and which of its fields they take.
local KINDS = {
  ReadyQSuspension = { orders = 'suspend_ready_q', give = 'suspend', fields = { name = 'site_name' } },
  SchedQSuspension = { orders = 'suspend', give = 'suspend', fields = { domain = 'domain', tenant = 'tenant', campaign = 'campaign' } },
  SchedQBounce = { orders = 'bounce', give = 'bounce', fields = { domain = 'domain', tenant = 'tenant', campaign = 'campaign' } },
}
-- The older kind of subscription.
KINDS.ReadyQ, KINDS.SchedQ = KINDS.ReadyQSuspension, KINDS.SchedQSuspension

-- Gives the order that an effect asks for. One about the same mail that lasts as long stays: another rule's, a daemon's, or an operator's.
local function carry_out(kind, effect)
  local request = { reason = effect.reason, expires = effect.expires, survives_restart = false, replaces = 'shorter' }
  for field, from in pairs(kind.fields) do
    request[field] = effect[from]
  end
  -- An order whose time is over would still be carried out for what waits.
  if kumo.time.parse_rfc3339(effect.expires) > kumo.time.now() then
    kumo.api.admin[kind.orders][kind.give](request)
  end
end

-- What cannot be carried out keeps nothing else from it.
local function hear(url, text)
  for name, effect in pairs(kumo.serde.json_parse(text)) do
    local kind = KINDS[name]
    local ok, why = true, nil
    if kind then
      ok, why = pcall(carry_out, kind, effect)
    else
      ok, why = false, 'not known here'
    end
    if not ok then
      kumo.log_warn(string.format('policy-extras.shaping: %s says %s: %s', url, text, tostring(why)))
    end
  end
end

local function connect(url)
  local address = url:gsub('^http', 'ws')
  local ok, stream, response = pcall(kumo.http.connect_websocket, address .. '/subscribe_event_v1')
  if not ok and tostring(stream):find 'HTTP error: 404' then
    return kumo.http.connect_websocket(address .. '/subscribe_suspension_v1')
  elseif not ok then
    error(stream, 0)
  end
  return stream, response
end

-- Follows one daemon for as long as the program runs.
local function follow(args)
  local url = args[1]
  while true do
    local ok, why = pcall(function()
      local stream = connect(url)
      while true do
        local text = stream:recv()
        if not text then
          error('the connection was closed', 0)
        end
        hear(url, text)
      end
    end)
    if not ok then
      kumo.log_warn(string.format('policy-extras.shaping: %s: %s: tried again in 30 s', url, tostring(why)))
    end
    kumo.sleep(30)
  end
end

-- Registers both tasks. To be called at the top level. Shaping data is looked at every 30 s, or more often where it is kept for
-- a shorter time.
function mod.install(load_shaping_data, load_data_in_use, cache_ttl)
  local interval = math.max(1, math.min(30, kumo.time.parse_duration(cache_ttl).seconds))
  kumo.on('kumo.tsa.suspension.subscriber', follow)

  -- A new configuration epoch begins when what shaping files say is something else.
  kumo.on('kumo.tsa.config.monitor', function()
    local seen
    while true do
      -- Paths may have been made of other data already than the first look shows.
      local ok, data = pcall(seen and load_shaping_data or load_data_in_use)
      if ok then
        local hash = data:hash()
        if seen and seen ~= hash then
          kumo.log_info 'policy-extras.shaping: shaping data has changed: a new configuration epoch begins'
          kumo.bump_config_epoch()
        end
        seen = hash
      else
        kumo.log_warn('policy-extras.shaping: shaping data stays as it was: ' .. problems.reason(data))
      end
      kumo.sleep(interval)
    end
  end)
end

-- Starts to follow, and to watch the shaping data. To be called in `init`.
function mod.start(options)
  for _, url in ipairs(options.subscribe or {}) do
    kumo.spawn_task { event_name = 'kumo.tsa.suspension.subscriber', args = { url } }
  end
  kumo.spawn_task { event_name = 'kumo.tsa.config.monitor', args = {} }
end

return mod
