//! What a decider must not reach for by itself: time, files, sockets, threads, chance, Lua.
//!
//! Reads the paths in code (`use` trees included). Below the driver layer (see [`crate::layers`])
//! the table [`FORBIDDEN`] holds for everything in `src/` that is no test; examples and tests may
//! do as they like. `mlua` is `crates/lua`'s alone, everywhere and in tests too.

use crate::layers::is_decider;
use crate::paths::paths;
use crate::{Offence, Rule, Source};

/// A path that begins so (a whole segment, or with `*` any ending) is an offence; instead.
pub const FORBIDDEN: [(&str, &str); 15] = [
    ("tokio", "return what to wait for; the driver layer awaits"),
    ("std::time", "take `now: clock::Instant` as an argument; core::time::Duration is fine"),
    ("std::fs", "ask through a trait that the driver layer implements"),
    ("std::net::Tcp*", "take octets, give octets; the driver layer owns the socket"),
    ("std::net::Udp*", "take octets, give octets; the driver layer owns the socket"),
    ("std::net::ToSocketAddrs", "ask route::Resolver's caller"),
    ("std::os", "leave the operating system to the driver layer"),
    ("std::env", "take the setting as an argument"),
    ("std::process", "return an error; the program decides"),
    ("std::thread", "return what to do; the driver layer has the threads"),
    ("fastrand", "take the random number as an argument"),
    ("rand", "take the random number as an argument"),
    ("getrandom", "take the random number as an argument"),
    ("std::hash::RandomState", "use an ordered map, or a hasher with a fixed or handed-in seed"),
    ("std::collections::hash_map::RandomState", "use an ordered map, or a hasher with a fixed or handed-in seed"),
];

/// Paths of `source` that it must not name.
pub fn check(source: &Source) -> Vec<Offence> {
    let Some(name) = source.crate_name() else { return Vec::new() };
    let mut found = Vec::new();
    for path in paths(&source.code) {
        let forbidden = match FORBIDDEN.iter().find(|(stem, _)| begins(&path.name, stem)) {
            _ if begins(&path.name, "mlua") && name != "lua" => Some(("outside crates/lua", SPEAK_TO_POLICY)),
            Some((_, instead)) if is_decider(name) && !source.in_test(path.at) => Some(("in a decider", *instead)),
            _ => None,
        };
        found.extend(forbidden.map(|(place, instead)| Offence {
            rule: Rule::Ambient,
            path: source.path.clone(),
            line: source.line(path.at),
            what: format!("`{}` {place}", path.name),
            name: path.name,
            instead,
        }));
    }
    found
}

/// True when `path` is `stem` or something in it.
fn begins(path: &str, stem: &str) -> bool {
    match stem.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")),
    }
}

const SPEAK_TO_POLICY: &str = "speak to policy through the Policy trait";

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).into_iter().map(|o| o.name).collect()
    }

    #[test]
    fn a_decider_that_looks_around_is_flagged() {
        let text = "use std::{fs, time::{Duration, Instant}};\nuse tokio;\n\
            fn f() { let s: std::net::TcpStream = g(fastrand::u8(..)); std::thread::sleep(d); }";
        assert_eq!(
            names("crates/queue/src/gate.rs", text),
            [
                "std::fs",
                "std::time::Duration",
                "std::time::Instant",
                "tokio",
                "std::net::TcpStream",
                "fastrand::u8",
                "std::thread::sleep"
            ]
        );
        let offence = &check(&Source::new("crates/queue/src/gate.rs", "\nuse std::fs;"))[0];
        assert!(
            offence.to_string().starts_with("crates/queue/src/gate.rs:2: `std::fs` in a decider; ask"),
            "{offence}"
        );
    }

    #[test]
    fn sound_code_tests_examples_and_drivers_pass() {
        let sound = "//! std::fs\nuse core::time::Duration;\nuse std::net::{IpAddr, SocketAddr};\n\
            fn f(rand: u8) -> u8 { let tokio = \"tokio::spawn\"; rand }\n#[cfg(test)]\nmod tests { use std::fs; }";
        assert_eq!(names("crates/queue/src/gate.rs", sound), Vec::<String>::new());
        for path in [
            "crates/queue/tests/a.rs",
            "crates/queue/examples/a.rs",
            "crates/store/src/file.rs",
            "testing/sim/src/lib.rs",
        ] {
            assert_eq!(names(path, "use std::fs;"), Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn mlua_belongs_to_lua() {
        assert_eq!(names("crates/engine/src/a.rs", "use mlua::Lua;"), ["mlua::Lua"]);
        assert_eq!(names("crates/engine/tests/a.rs", "fn f(l: mlua::Lua) {}"), ["mlua::Lua"]);
        assert_eq!(names("crates/lua/src/a.rs", "use mlua::Lua;"), Vec::<String>::new());
    }
}
