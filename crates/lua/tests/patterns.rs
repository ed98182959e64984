//! The crate `pattern` gives the same answers as Lua's own functions, for subjects and patterns made at random and for the corners.

use mlua::{Function, Lua, MultiValue, Value};
use pattern::{Capture, Error, Pattern, cheap_length, is_plain};
use proptest::prelude::*;

/// What Lua says: nothing, an error, or where the match is and what it captured.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Nothing,
    Wrong(String),
    Found(usize, usize, Vec<Captured>),
}

#[derive(Debug, PartialEq, Eq)]
enum Captured {
    Text(Vec<u8>),
    Place(usize),
}

/// Text of an error without the place in front.
fn bare(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    first.rsplit_once(": ").map_or(first, |(_, rest)| rest).to_owned()
}

fn of_lua(find: &Function, lua: &Lua, subject: &[u8], text: &[u8], from: usize) -> Answer {
    let given = (lua.create_string(subject), lua.create_string(text), from + 1);
    let (subject, text) = (given.0.expect("memory"), given.1.expect("memory"));
    let told: MultiValue = match find.call((subject, text, given.2)) {
        Ok(told) => told,
        Err(e) => return Answer::Wrong(bare(&e.to_string())),
    };
    let mut values = told.into_iter();
    let mut number = || values.next().and_then(|v| v.as_usize());
    let Some(start) = number() else { return Answer::Nothing };
    let end = number().expect("an end");
    let captured = |value: Value| match value {
        Value::String(text) => Captured::Text(text.as_bytes().to_vec()),
        Value::Integer(at) => Captured::Place(usize::try_from(at).expect("a place")),
        other => panic!("{other:?}"),
    };
    Answer::Found(start, end, values.map(captured).collect())
}

fn ours(subject: &[u8], text: &[u8], from: usize, steps: u64) -> Answer {
    if is_plain(text) {
        // As Lua: such a text is searched for as it is.
        let place = (from..=subject.len()).find(|start| subject[*start..].starts_with(text));
        return place.map_or(Answer::Nothing, |start| Answer::Found(start + 1, start + text.len(), Vec::new()));
    }
    let mut left = steps;
    let found = match Pattern::new(text).find(subject, from, &mut left) {
        Ok(Some(found)) => found,
        Ok(None) => return Answer::Nothing,
        Err(e) => return Answer::Wrong(e.to_string()),
    };
    let mut captures = Vec::new();
    for number in 0..found.count() {
        captures.push(match found.capture(number) {
            Ok(Capture::Span(start, end)) => Captured::Text(subject[start..end].to_vec()),
            Ok(Capture::Position(at)) => Captured::Place(at + 1),
            Err(e) => return Answer::Wrong(e.to_string()),
        });
    }
    Answer::Found(found.start + 1, found.end, captures)
}

fn compare(subject: &[u8], text: &[u8], from: usize) -> Result<(), TestCaseError> {
    thread_local! {
        static LUA: (Lua, Function) = {
            let lua = Lua::new();
            let find = lua.load("return string.find").eval().expect("Lua");
            (lua, find)
        };
    }
    let theirs = LUA.with(|(lua, find)| of_lua(find, lua, subject, text, from));
    prop_assert_eq!(
        ours(subject, text, from, STEPS),
        theirs,
        "{:?} in {:?} from {}",
        shown(text),
        shown(subject),
        from
    );
    Ok(())
}

fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

/// Pieces of patterns, sound ones and others.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "a", "b", ".", "%a", "%s", "%D", "%W", "%.", "%%", "[ab]", "[^a]", "[a-c]", "[%s]", "[]a]", "[a-]", "[^%a-]",
        "*", "+", "-", "?", "(", ")", "()", "(.-)", "%1", "%2", "%b()", "%f[a]", "%f[^%z]", "^", "$", " ", "%", "[",
        "%b", "%f", "]", "%x", "%p", "\0",
    ]);
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat().into_bytes())
}

fn subjects() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(b"aabbc ().-]%^$\0\xff1Z\n".to_vec()), 0..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn as_lua(subject in subjects(), text in pieces(), from in 0usize..15) {
        compare(&subject, &text, from.min(subject.len()))?;
    }

    #[test]
    fn as_lua_with_any_octets(subject in prop::collection::vec(any::<u8>(), 0..10), text in prop::collection::vec(any::<u8>(), 0..6)) {
        compare(&subject, &text, 0)?;
    }

    /// What is called cheap is cheap.
    #[test]
    fn cheap_subjects_are_cheap(unit in "[a ^]{1,2}", text in pieces()) {
        let Some(length) = cheap_length(&text, CHEAP_STEPS) else { return Ok(()) };
        let length = length.min(LENGTH_MAX);
        let subject: Vec<u8> = unit.bytes().cycle().take(length).collect();
        let mut left = u64::MAX;
        // A `^` in front is an octet to `gmatch`.
        let pattern = if unit == "^" { Pattern::unanchored(&text) } else { Pattern::new(&text) };
        let found = pattern.find(&subject, 0, &mut left);
        prop_assert!(found.is_ok(), "{:?}: {:?}", found, shown(&text));
        let taken = u64::MAX - left;
        let allowed = u64::from(CHEAP_STEPS) * u64::try_from(text.len() + 1).expect("short");
        prop_assert!(taken <= allowed * STEPS_PER_OCTET, "{taken} steps for {:?} in {length} octets", shown(&text));
    }
}

/// Every octet against every class, and the words of each error.
#[test]
fn classes_and_errors() {
    for class in "acdglpsuwxACDGLPSUWXzZ.k1".bytes() {
        for octet in 0..=u8::MAX {
            compare(&[octet], &[b'%', class], 0).expect("as Lua");
            compare(&[octet], &[b'[', b'%', class, b']'], 0).expect("as Lua");
        }
    }
    let deep = "a?".repeat(300);
    for wrong in [
        "%", "[", "[a", "[%", "[a%", "[^", "%b", "%bx", "%f", "%fa", ".)", "%1", "(%1)", "(", "(()", "()%2", "%0",
        &deep,
    ] {
        let answer = ours(&b"aaa".repeat(200), wrong.as_bytes(), 0, STEPS);
        assert!(matches!(answer, Answer::Wrong(_)), "{wrong}: {answer:?}");
        compare(&b"aaa".repeat(200), wrong.as_bytes(), 0).expect("as Lua");
    }
    compare(b"a", "()".repeat(33).as_bytes(), 0).expect("as Lua");
    compare(b"a", "()".repeat(32).as_bytes(), 0).expect("as Lua");
}

/// What Lua's own search takes minutes for.
#[test]
fn a_search_ends() {
    let blank = vec![b' '; 1 << 20];
    for hostile in ["^(.-)%s*x", "%s*%s*%s*x", "(.-)(.-)(.-)x", "x*.-y"] {
        let mut left = STEPS;
        assert_eq!(Pattern::new(hostile.as_bytes()).find(&blank, 0, &mut left).expect_err(hostile), Error::TooLong);
        assert_eq!(left, 0, "{hostile}: not all of it was used");
    }
    let mut left = STEPS;
    assert!(Pattern::new(b"^%s*$").find(&blank, 0, &mut left).expect("sound").is_some());
    assert!(STEPS - left < 3 << 20, "one look at each octet");
}

const STEPS: u64 = 10_000_000;
const CHEAP_STEPS: u32 = 20_000;
const LENGTH_MAX: usize = 4096;
/// The bound counts tries, and each try looks at a few octets.
const STEPS_PER_OCTET: u64 = 8;
