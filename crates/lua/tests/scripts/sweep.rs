//! Every function, called with what makes no sense: an error that says who was called, or an answer, and never the end of the
//! program.

use crate::support::{draft, load, now};
use policy::{ConnMeta, Policy};

/// They do with any arguments what they are for, and that takes too long or ends the handler.
const PASSED_OVER: [&str; 4] = ["kumo.sleep", "kumo.reject", "kumo.disconnect", "kumo.time.sleep"];

const SWEEP: &str = r"
local function found(name)
  local at
  for part in name:gmatch '[^.]+' do
    if at then at = at[part] elseif part == 'kumo' then at = kumo else at = require(part) end
  end
  return at
end

local cycle = {}
cycle.itself = cycle
LISTS = {
  {}, { nil, n = 1 }, { {} }, { cycle }, { '\xff' }, { 1 / 0 }, { 0 / 0 }, { 2 ^ 63 }, { -1 }, { true }, { function() end },
  { '' }, { 'x', 'y', 'z', 'w' }, { { 'x', x = 1 } }, { {}, {}, {} }, { 1, 2, 3 },
}

kumo.on('smtp_server_message_received', function(msg)
  local wrong, refused = {}, 0
  for name in NAMES:gmatch '%S+' do
    local f = found(name)
    for number, list in ipairs(LISTS) do
      local ok, why = pcall(f, table.unpack(list, 1, list.n or #list))
      if not ok then
        refused = refused + 1
        local text = tostring(why)
        if not text:find(name, 1, true) and not text:find('bad argument', 1, true) then
          wrong[#wrong + 1] = name .. ' with list ' .. number .. ': ' .. text:match '[^\n]*'
        end
      end
    end
  end
  msg:set_meta('wrong', table.concat(wrong, '\n'))
  msg:set_meta('refused', refused)
end)
";

/// What methods are called on, by what stands before the colon in their names.
const METHODS: &str = r"
local function objects(msg, conn_meta)
  local client = kumo.http.build_client {}
  local part = msg:parse_mime()
  return {
    message = msg,
    conn_meta = conn_meta,
    regex = kumo.regex.compile 'x',
    throttle = kumo.make_throttle('sweep', '1000000/s'),
    queue = kumo.mpsc.define('sweep', 16),
    series = kumo.counter_series.define { name = 'sweep', num_buckets = 2, bucket_size = 60 },
    builder = kumo.mimepart.builder(),
    mimepart = part,
    headers = part.headers,
    client = client,
    request = client:get 'http://127.0.0.1:1/',
    time = kumo.time.now(),
    sqlite_conn = require('sqlite').open ':memory:',
    shaping = kumo.shaping.load {},
  }
end

kumo.on('smtp_server_message_received', function(msg, conn_meta)
  local of, swept = objects(msg, conn_meta), 0
  local wrong, refused = {}, 0
  for name in NAMES:gmatch '%S+' do
    local kind, method = name:match '^([^:]+):(.+)$'
    local object = of[kind]
    if object then
      swept = swept + 1
      for number, list in ipairs(LISTS) do
        local ok, why = pcall(object[method], object, table.unpack(list, 1, list.n or #list))
        if not ok then
          refused = refused + 1
          local text = tostring(why)
          if not text:find(method, 1, true) and not text:find('bad argument', 1, true) then
            wrong[#wrong + 1] = name .. ' with list ' .. number .. ': ' .. text:match '[^\n]*'
          end
        end
      end
    end
  end
  msg:set_meta('swept', swept)
  msg:set_meta('wrong', table.concat(wrong, '\n'))
  msg:set_meta('refused', refused)
end)
";

/// Methods that do with any arguments what they are for, which is to wait, or to end what they belong to.
const METHODS_PASSED_OVER: [&str; 10] = [
    "request:send",
    "request:events",
    "throttle:sleep_if_throttled",
    "queue:recv",
    "queue:recv_many",
    "queue:close",
    "queue:send",
    "sqlite_conn:close",
    "client:close",
    "message:num_attempts",
];

#[test]
fn methods_refuse_nonsense_by_name() {
    let names: Vec<&str> = lua::modules()
        .iter()
        .flat_map(|module| module.types)
        .flat_map(|kind| kind.members)
        .flat_map(|member| member.name.split([' ', ',']))
        .filter(|name| name.contains(':') && !METHODS_PASSED_OVER.contains(name))
        .collect();
    let lists = SWEEP.split("LISTS = ").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("the lists");
    let script =
        format!("NAMES = [[{}]]\nlocal cycle = {{}} cycle.itself = cycle\nLISTS = {lists}\n{METHODS}", names.join(" "));
    let loaded = load(&script);
    let swept = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("carried out");
    let text = |name: &str| swept.meta.get(name).map(|value| value.to_string()).unwrap_or_default();
    assert_eq!(text("wrong").replace("\\n", "\n"), "\"\"", "errors that do not say whose they are");
    let number = |name: &str| text(name).parse::<u64>().expect("a number");
    assert!(
        number("swept") > 100 && number("refused") > 400,
        "{} methods, {} refusals",
        text("swept"),
        text("refused")
    );
}

#[test]
fn nonsense_is_refused_by_name() {
    let names: Vec<&str> = lua::modules()
        .iter()
        .filter(|module| module.name == "kumo" || module.name.starts_with("kumo."))
        .flat_map(|module| module.functions())
        .map(|function| function.full_name)
        .filter(|name| !PASSED_OVER.contains(name))
        .collect();
    assert!(names.len() > 150, "only {} functions", names.len());
    let loaded = load(&format!("NAMES = [[{}]]\n{SWEEP}", names.join(" ")));
    let swept = now(loaded.policy.smtp_server_message_received(draft(), ConnMeta::new())).expect("carried out");
    let text = |name: &str| swept.meta.get(name).map(|value| value.to_string()).unwrap_or_default();
    assert_eq!(text("wrong"), "\"\"", "errors that do not say whose they are");
    let refused: u64 = text("refused").parse().expect("a number");
    assert!(refused > 1000, "only {refused} refusals");
}
