-- What the policies of these tests have in common; they find it because it lies beside them.
local kumo = require 'kumo'
local base = {}

-- Both tables in a new one; where both have a member, that of `options`.
local function over(defaults, options)
  local both = {}
  for _, some in ipairs { defaults, options or {} } do
    for name, value in pairs(some) do
      both[name] = value
    end
  end
  return both
end

base.over = over

-- To be called at `init`: spools and logs (one segment a second) below `dir`, an HTTP listener and ESMTP listeners on ports of the
-- system's choice that relay for this machine.
--   parts: options for some of these, `spool`, `logs`, `http`, and `esmtp`, which is a list with a table for each listener
function base.serve(dir, parts)
  parts = parts or {}
  for _, name in ipairs { 'data', 'meta' } do
    kumo.define_spool(over({ name = name, path = dir .. '/' .. name }, parts.spool))
  end
  kumo.configure_local_logs(over({ log_dir = dir .. '/logs', max_segment_duration = '1s' }, parts.logs))
  kumo.start_http_listener(over({ listen = '127.0.0.1:0' }, parts.http))
  for _, esmtp in ipairs(parts.esmtp or { {} }) do
    kumo.start_esmtp_listener(over({ listen = '127.0.0.1:0', relay_hosts = { '127.0.0.1' } }, esmtp))
  end
end

-- The protocol of a queue that goes to one smart host: `addr` is host:port, `name` what the host is called.
function base.to_host(addr, name)
  return { smtp = { mx_list = { { name = name or 'sink.test', addr = addr } } } }
end

-- A path in clear, to loopback too, which the default forbids; `options` add to that or say otherwise.
function base.path(options)
  return kumo.make_egress_path(over({ enable_tls = 'Disabled', prohibited_hosts = {} }, options))
end

-- A table, given what stands between its braces; nil is an empty one.
function base.table_of(text)
  return assert(load('return {' .. (text or '') .. '}'))()
end

-- All of a file, which must be there.
function base.read(path)
  local file = assert(io.open(path))
  local text = file:read 'a'
  file:close()
  return text
end

-- True while a file is there that can be read.
function base.exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

-- Writes to a file; `mode` as that of `io.open`.
function base.write(path, mode, text)
  local file = assert(io.open(path, mode))
  file:write(text)
  file:close()
end

return base
