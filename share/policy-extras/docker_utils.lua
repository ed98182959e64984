-- Addresses of neighbours, where a program runs in a container.

local kumo = require 'kumo'

local mod = {}

-- Lines of what a command prints; none when it fails.
local function lines_of(command)
  local lines = {}
  local pipe = io.popen(command)
  if pipe then
    for line in pipe:lines() do
      lines[#lines + 1] = line
    end
    pipe:close()
  end
  return lines
end

local function addresses(name)
  if not name:match '^[%w%.%-_]+$' then
    error(string.format('%q: expected a host name', name), 2)
  end
  local found, seen = {}, {}
  for _, line in ipairs(lines_of('getent ahostsv4 ' .. name)) do
    local ip = line:match '^(%S+)'
    if ip and not seen[ip] then
      seen[ip] = true
      found[#found + 1] = ip
    end
  end
  return found
end

-- The IPv4 addresses of a host, remembered for a minute.
mod.resolve_docker_name = kumo.memoize(addresses, { name = 'policy-extras.docker_utils.name', ttl = '1 minute', capacity = 100 })

-- The network of this container, `a.b.c.0/24`, remembered for an hour.
mod.resolve_docker_network = kumo.memoize(function()
  local name = os.getenv 'HOSTNAME'
  local ip = name and addresses(name)[1]
  if not ip then
    error('this host has no address: expected HOSTNAME to name it', 2)
  end
  return (ip:gsub('%.%d+$', '.0/24'))
end, { name = 'policy-extras.docker_utils.network', ttl = '1 hour', capacity = 1 })

-- The base URLs of the service `tsa`.
function mod.resolve_tsa_endpoints()
  local urls = {}
  for _, ip in ipairs(mod.resolve_docker_name 'tsa') do
    urls[#urls + 1] = string.format('http://%s:8008', ip)
  end
  return urls
end

return mod
