//! The bounded functions answer as Lua's own, the choice between them changes nothing, and a hostile search ends.

use super::*;
use proptest::prelude::*;

/// Lua's own functions beside ours, and what compares them.
struct Pair {
    lua: Lua,
    judge: Function,
}

thread_local! {
    static PAIR: Pair = {
        let lua = Lua::new();
        let string: Table = lua.globals().get("string").expect("there");
        let theirs: Table = lua.load("local copy = {} for k, v in pairs(string) do copy[k] = v end return copy").eval().expect("sound");
        lua.globals().set("theirs", theirs).expect("set");
        replace(&lua, &Compiled::default()).expect("replaced");
        lua.globals().set("ours", string).expect("set");
        let judge = lua.load(JUDGE).eval().expect("sound");
        Pair { lua, judge }
    };
}

/// What both say, as text: results with their types, or that it is an error and which.
const JUDGE: &str = "
local function bare(e) return (tostring(e):match('^[^\\n]*'):gsub('^.*: ', '')) end
local function said(ok, ...)
  if not ok then return 'error: ' .. bare((...)) end
  local words = table.pack(...)
  for i = 1, words.n do words[i] = (math.type(words[i]) or type(words[i])) .. '=' .. tostring(words[i]) end
  return table.concat(words, '|')
end
local function all(iterate, ...)
  local found = {}
  local ok, e = pcall(function(...)
    for a, b, c in iterate(...) do
      found[#found + 1] = said(true, a, b, c)
      if #found > 100 then break end
    end
  end, ...)
  return table.concat(found, ';') .. (ok and '' or bare(e))
end
return function(name, ...)
  if name == 'gmatch' then
    return all(theirs.gmatch, ...), all(ours.gmatch, ...)
  end
  return said(pcall(theirs[name], ...)), said(pcall(ours[name], ...))
end";

fn same(name: &str, rest: impl mlua::IntoLuaMulti) -> Result<(), TestCaseError> {
    PAIR.with(|pair| {
        let mut given = rest.into_lua_multi(&pair.lua).expect("memory");
        given.push_front(Value::String(pair.lua.create_string(name).expect("memory")));
        let (theirs, ours): (LuaString, LuaString) = pair.judge.call(given).expect("judged");
        prop_assert_eq!(theirs.to_string_lossy(), ours.to_string_lossy());
        Ok(())
    })
}

fn patterns() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", ".", "%a", "%s", "[ab]", "[^a]", "*", "+", "-", "?", "(", ")", "()", "(.-)", "%1", "%b()", "%f[%a]", "^",
        "$", "%", "(a?)",
    ]);
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn searches_answer_as_lua(subject in "[ab ().]{0,12}", text in patterns(), init in -14i64..15, plain in any::<bool>()) {
        same("find", (&*subject, &*text, init, plain))?;
        same("match", (&*subject, &*text, init))?;
        same("gmatch", (&*subject, &*text, init))?;
    }

    #[test]
    fn replacements_answer_as_lua(
        subject in "[ab ().]{0,12}", text in patterns(), by in "[x%012a]{0,4}", most in prop::option::of(-1i64..5),
    ) {
        same("gsub", (&*subject, &*text, &*by, most))?;
        PAIR.with(|pair| {
            let table = pair.lua.load("return { a = 'A', b = false, ab = 7, [''] = 1.5, [' '] = {} }").eval::<Table>().expect("sound");
            same("gsub", (&*subject, &*text, table, most))?;
            let function = pair.lua.load("return function(a, b) if a == 'a' then return b end return a end").eval::<Function>();
            same("gsub", (&*subject, &*text, function.expect("sound"), most))
        })?;
    }
}

/// A state as policies have it, with so many millions of instructions for a handler.
fn state(millions: u64) -> Lua {
    let lua = Lua::new();
    let budget = guard::Budget { start: millions, handler: millions };
    guard::install(&lua, budget, config::MemoryLimits::default()).expect("installed");
    replace(&lua, &Compiled::default()).expect("replaced");
    lua
}

/// Subjects on either side of the choice.
#[test]
fn the_choice_changes_nothing() {
    let script = "
      for _, length in ipairs { 1, 100, 141, 142, 2000, 100000, 1000000 } do
        local subject = ('x'):rep(length) .. ' end'
        assert(subject:find('%s') == length + 1 and subject:match('%a%a%a$') == 'end')
        assert(subject:match('^(x*) (e)nd$') == ('x'):rep(length) and select('#', subject:match('^(x*) (e)nd$')) == 2)
        assert(subject:gsub('x+', '') == ' end' and select(2, subject:gsub('x', '%0')) == length)
        assert(subject:gsub('x+', function(x) return #x * 1.0 end) == ('%.1f end'):format(length))
        assert(subject:gsub('x+', { [('x'):rep(length)] = 1e100 }) == '1e+100 end')
        local words = 0
        for word in subject:gmatch('%a+') do words = words + 1 end
        assert(words == 2, words)
        assert(subject:find('nd', 1, true) == length + 3 and subject:find('nope', 1, true) == nil)
        local ok, raised = pcall(subject.gsub, subject, 'x+', function() error { code = 7 } end)
        assert(not ok and raised.code == 7)
      end
      assert(string.find(12345, 3) == 3 and string.gsub(12, 1, 2) == '22')
      local seen = {}
      for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do seen[k] = v end
      assert(seen.a == '1' and seen.b == '2')
    ";
    state(500).load(script).exec().expect("as ever");
}

/// An error is a text that names the function and the line of the script, whichever search found it.
#[test]
fn errors_are_about_the_script() {
    let lua = state(500);
    for (script, expected) in [
        ("string.find(nil, 'x')", "bad argument #1 to 'find' (string expected, got nil)"),
        ("string.find('x', 'x', {})", "bad argument #3 to 'find' (number expected, got table)"),
        ("('x'):match()", "bad argument #2 to 'match' (string expected, got nil)"),
        ("('x'):gsub('x')", "bad argument #3 to 'gsub' (string/function/table expected, got nil)"),
        ("('x'):gsub('x', true)", "bad argument #3 to 'gsub' (string/function/table expected, got boolean)"),
        ("string.gmatch({}, 'x')", "bad argument #1 to 'gmatch' (string expected, got table)"),
        ("('x'):match('[')", "malformed pattern (missing ']')"),
        ("('x'):find('%')", "malformed pattern (ends with '%')"),
        ("(('x'):rep(100000)):match('x*[')", "malformed pattern (missing ']')"),
        ("(('x'):rep(10)):gsub('x', '%')", "invalid use of '%' in replacement string"),
        ("(('x'):rep(100000)):gsub('x', '%2')", "invalid capture index %2"),
        ("(('x'):rep(100000)):gsub('x+', function() return {} end)", "invalid replacement value (a table)"),
        ("for _ in (('x'):rep(10)):gmatch('(x') do end", "unfinished capture"),
    ] {
        let whole = format!("local ok, error = pcall(function()\n{script}\nend) return ok, error");
        let (ok, error): (bool, Value) = lua.load(whole).set_name("=policy.lua").eval().expect(script);
        let error = error.as_string().unwrap_or_else(|| panic!("{script}: a text")).to_string_lossy();
        assert!(!ok && error == format!("policy.lua:2: {expected}"), "{script}: {error}");
    }
}

#[test]
fn a_hostile_search_ends() {
    let lua = state(20);
    lua.globals().set("blank", " ".repeat(200_000)).expect("set");
    lua.globals().set("lines", format!("{}a \n", " ".repeat(355)).repeat(20_000)).expect("set");
    lua.globals().set("carets", "^".repeat(1_000_000)).expect("set");
    for search in [
        "blank:match('^(.-)%s*%s*x')",
        "blank:find('%s*%s*x')",
        "blank:gsub('%s*%s*x', '')",
        "blank:gsub('%s*%s*x', print)",
        "blank:gmatch('%s-%s-x')()",
        "carets:gmatch('^.*x')()",
        // Many searches, none of which takes long.
        "lines:gsub('%s+\\n', '\\n')",
        "for line in lines:gmatch('[^\\n]*') do line:match('^(.-)%s*$') end",
    ] {
        guard::enter(&lua);
        let error = lua.load(search).exec().expect_err(search).to_string();
        let is_said =
            ["the search took more steps than", "million instructions"].iter().any(|words| error.contains(words));
        assert!(is_said, "{search}: {error}");
        // What stops a loop that catches errors stays in the state.
        lua.remove_hook();
    }
}

#[test]
fn a_replacement_has_the_memory_of_a_state() {
    let lua = Lua::new();
    let memory = config::MemoryLimits { hard: Some(1 << 30), ..config::MemoryLimits::default() };
    guard::install(&lua, guard::Budget::default(), memory).expect("installed");
    replace(&lua, &Compiled::default()).expect("replaced");
    let script = "local s, by = ('x'):rep(5000000), ('y'):rep(1000) return #s:gsub('x', by)";
    let error = lua.load(script).exec().expect_err("too much").to_string();
    assert!(error.contains("not enough memory"), "{error}");
}
