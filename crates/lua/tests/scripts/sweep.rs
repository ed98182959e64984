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
local LISTS = {
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
