-- Mail of many domains that is hosted in one place goes through one queue.

local kumo = require 'kumo'

local mod = {}

local SUFFIX = '.ip_rollup'

-- The value of the suffix that every host ends with, or nil.
local function of_all_hosts(hosts, by_suffix)
  for suffix, value in pairs(by_suffix) do
    local all = #hosts > 0
    for _, host in ipairs(hosts) do
      all = all and kumo.string.ends_with(host, suffix)
    end
    if all then
      return value
    end
  end
end

-- What DNS says of the recipient's domain; nil, and a line of print, when it says nothing.
local function look_up(domain)
  local ok, mx = pcall(kumo.dns.lookup_mx, domain)
  if ok then
    return mx
  end
  print(string.format('rollup: %s: %s', domain, tostring(mx):match '^[^\n]*'))
end

-- Sets `routing_domain` of a message whose exchangers all end with one of these suffixes, which include the dot at the end:
--   { ['.mail.example.com.'] = 'example.com' }
function mod.reroute_based_on_mx_host_suffix(msg, by_suffix)
  local domain = msg:recipient_list()[1].domain
  local mx = look_up(domain)
  local target = mx and of_all_hosts(mx.hosts, by_suffix)
  if target and target ~= domain then
    msg:set_meta('routing_domain', target)
  end
end

-- The same by the most preferred exchangers alone, for names that end in `.ip_rollup`.
function mod.reroute_using_ip_rollup(msg, by_suffix)
  local domain = msg:recipient_list()[1].domain
  local mx = look_up(domain)
  if not mx then
    return
  end
  local best
  for preference in pairs(mx.by_pref) do
    local number = tonumber(preference)
    best = (not best or number < tonumber(best)) and preference or best
  end
  local target = best and of_all_hosts(mx.by_pref[best], by_suffix)
  if target and target ~= domain then
    msg:set_meta('routing_domain', target)
  end
end

-- For a routing domain that ends in `.ip_rollup`: sends to the addresses of the domain's exchangers, by putting them into
-- `params.protocol`. By addresses alone: under the names of hosts, each domain would have a ready queue of its own.
function mod.apply_ip_rollup_to_queue_config(domain, routing_domain, params)
  if not routing_domain or not kumo.string.ends_with(routing_domain, SUFFIX) then
    return
  end
  local mx = kumo.dns.lookup_mx(domain)
  local list = {}
  local why
  for _, host in ipairs(mx.hosts) do
    local ok, addresses = pcall(kumo.dns.lookup_addr, host)
    if not ok then
      -- The others take the mail.
      why, addresses = addresses, {}
    end
    table.sort(addresses)
    for _, addr in ipairs(addresses) do
      local entry = '[' .. addr .. ']'
      if not list[entry] then
        list[entry], list[#list + 1] = true, entry
      end
    end
  end
  if #list == 0 and why then
    error(why, 0)
  end
  params.protocol = { smtp = { mx_list = table.move(list, 1, #list, 1, {}) } }
end

return mod
