//! The layers: which crate stands where, and that every edge points down.
//!
//! In: the crates of the workspace and what each names in its Cargo.toml (normal, build and dev
//! alike: a test that looks up is a test of the wrong crate). A crate may name crates of lower
//! layers; an edge inside a layer must be in [`SIDEWAYS`] with its reason. Both tables must be
//! true: a row for a crate or an edge that is not there is an offence too.
//! ARCHITECTURE.md shows the same picture to people.

use crate::{Offence, Rule};

/// Every crate of the workspace and its layer.
pub const LAYERS: [(&str, u8); 49] = [
    // 0: words. No I/O, no clock, no Lua.
    ("clock", 0),
    ("smtp-wire", 0),
    ("mime", 0),
    ("record", 0),
    ("config", 0),
    ("template", 0),
    ("pattern", 0),
    ("public-suffix", 0),
    ("watched", 0),
    // 1: nouns with a durable form.
    ("message", 1),
    ("spool", 1),
    // 2: deciders.
    ("smtp-server", 2),
    ("smtp-client", 2),
    ("queue", 2),
    ("bounce", 2),
    ("shaping", 2),
    ("route", 2),
    ("sender-auth", 2),
    ("mimepart", 2),
    ("injection", 2),
    ("access", 2),
    ("reports", 2),
    // 3: what a policy may be asked.
    ("policy", 3),
    ("sender-check", 3),
    ("compliance", 3),
    ("automation", 3),
    // 4: drivers, the only place that awaits.
    ("net", FIRST_DRIVER_LAYER),
    ("store", FIRST_DRIVER_LAYER),
    ("telemetry", FIRST_DRIVER_LAYER),
    ("jsonl", FIRST_DRIVER_LAYER),
    ("throttle", FIRST_DRIVER_LAYER),
    ("web", FIRST_DRIVER_LAYER),
    ("brokers", FIRST_DRIVER_LAYER),
    ("event-stream", FIRST_DRIVER_LAYER),
    ("metrics-export", FIRST_DRIVER_LAYER),
    ("log-search", FIRST_DRIVER_LAYER),
    ("report-sender", FIRST_DRIVER_LAYER),
    ("engine", FIRST_DRIVER_LAYER),
    ("traffic", FIRST_DRIVER_LAYER),
    // 5: faces.
    ("lua", 5),
    ("admin", 5),
    ("tsa", 5),
    ("cli", 5),
    ("kcli", 5),
    // 6: the program.
    ("postrider", 6),
    // 7: tests of the whole.
    ("sim", 7),
    ("e2e", 7),
    ("bench", 7),
    ("tidy", 7),
];

/// Edges inside a layer: from, to, why.
pub const SIDEWAYS: [(&str, &str, &str); 29] = [
    ("spool", "message", "what is stored is a Sealed; the codec of its envelope is message's"),
    ("jsonl", "telemetry", "segments of scripts are written as those of the log are"),
    ("injection", "mimepart", "what is injected is built as scripts build"),
    ("compliance", "sender-check", "what domains publish is asked and read as checks do"),
    ("engine", "net", "the engine drives connections that net opens"),
    ("engine", "store", "the engine waits for commits that store makes"),
    ("engine", "telemetry", "the engine reports what it did"),
    ("web", "net", "one way to verify certificates"),
    ("brokers", "net", "one way to verify certificates"),
    ("event-stream", "jsonl", "one way to read segments, also of those that are still written"),
    ("event-stream", "telemetry", "streams count what they deliver"),
    ("event-stream", "web", "one way to ask over HTTP"),
    ("event-stream", "net", "one way to verify certificates"),
    ("metrics-export", "telemetry", "what is sent is read from the text of /metrics"),
    ("metrics-export", "event-stream", "one way to wait for who does not take what is sent"),
    ("metrics-export", "web", "one way to ask over HTTP"),
    ("metrics-export", "net", "one way to verify certificates"),
    ("engine", "metrics-export", "what is sent is what the engine shows"),
    ("report-sender", "net", "one way to verify certificates"),
    ("report-sender", "telemetry", "reports are counted"),
    ("report-sender", "web", "one way to ask over HTTP"),
    ("engine", "report-sender", "who sends reports has a queue, and sees sessions, through the engine"),
    ("log-search", "jsonl", "one way to read segments, also of those that are still written"),
    ("log-search", "telemetry", "the form of an index is that of its writer"),
    ("engine", "log-search", "what is not in queues any more, the log knows"),
    ("engine", "jsonl", "its errors are those of searches"),
    ("engine", "event-stream", "streams come and go with the policy, as logs do"),
    ("tsa", "admin", "one way to serve HTTP, and to say who may ask"),
    ("engine", "throttle", "the engine asks Redis for what the cluster counts"),
];

/// Drivers and everything above them may wait, read clocks and open files.
pub const FIRST_DRIVER_LAYER: u8 = 4;

/// Libraries that stand for a clock, a file, a socket, a thread, a random number or Lua.
pub const DRIVER_LIBRARIES: [&str; 13] = [
    "tokio",
    "tokio-rustls",
    "mlua",
    "fastrand",
    "rand",
    "getrandom",
    "socket2",
    "libc",
    "nix",
    "hickory-resolver",
    "async-nats",
    "lapin",
    "rdkafka",
];

/// A crate of the workspace as cargo sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Its name.
    pub name: String,
    /// Its Cargo.toml, relative to the root.
    pub manifest: String,
    /// What it names, of ours and of others.
    pub uses: Vec<Use>,
}

/// A dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Of what.
    pub name: String,
    /// For tests and examples only.
    pub is_dev: bool,
}

/// The layer of a crate.
pub fn layer(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(known, _)| *known == name).map(|(_, layer)| *layer)
}

/// True for a crate that must know no clock, file, socket, thread or chance.
pub fn is_decider(name: &str) -> bool {
    layer(name).is_some_and(|layer| layer < FIRST_DRIVER_LAYER)
}

/// Upward and unlisted edges, and rows of the tables that are no longer true.
pub fn edges(crates: &[Crate]) -> Vec<Offence> {
    let mut found: Vec<Offence> = crates.iter().flat_map(edges_of).collect();
    for (name, _) in LAYERS.iter() {
        if !crates.iter().any(|c| c.name == *name) {
            found.push(stale(format!("crate {name} has a layer but does not exist")));
        }
    }
    for (from, to, _) in SIDEWAYS {
        let exists = crates.iter().any(|c| c.name == from && c.uses.iter().any(|u| u.name == to));
        if !exists {
            found.push(stale(format!("edge {from} -> {to} is allowed but does not exist")));
        }
    }
    found
}

fn edges_of(from: &Crate) -> Vec<Offence> {
    let offence = |name: String, what: String, instead| Offence {
        rule: Rule::Edge,
        path: from.manifest.clone(),
        line: 1,
        name,
        what,
        instead,
    };
    let Some(here) = layer(&from.name) else {
        let what = format!("crate {} has no layer", from.name);
        return vec![offence(from.name.clone(), what, "give it a row in LAYERS (testing/tidy/src/layers.rs)")];
    };
    let mut found = Vec::new();
    for used in &from.uses {
        let edge = format!("{} -> {}", from.name, used.name);
        match layer(&used.name) {
            Some(there) if there > here => {
                let what = format!("layer {here} names layer {there}: {edge}");
                found.push(offence(
                    edge,
                    what,
                    "move the shared type down, or define the seam trait in the lower crate",
                ));
            }
            Some(there) if there == here && !SIDEWAYS.iter().any(|(f, t, _)| *f == from.name && *t == used.name) => {
                let what = format!("edge inside layer {here}: {edge}");
                found.push(offence(edge, what, "pass values from above, or list the edge with its reason in SIDEWAYS"));
            }
            None if here < FIRST_DRIVER_LAYER && !used.is_dev && DRIVER_LIBRARIES.contains(&used.name.as_str()) => {
                let what = format!("a decider (layer {here}) depends on a driver's library: {edge}");
                found.push(offence(edge, what, "take what it would fetch as an argument; the driver layer fetches it"));
            }
            None if used.name == "mlua" && from.name != "lua" => {
                let what = format!("mlua named outside crates/lua: {edge}");
                found.push(offence(edge, what, "speak to policy through the Policy trait"));
            }
            _ => {}
        }
    }
    found
}

fn stale(what: String) -> Offence {
    let path = "testing/tidy/src/layers.rs".into();
    Offence { rule: Rule::Edge, path, line: 1, name: String::new(), what, instead: "delete the row" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(from: &str, to: &str, is_dev: bool) -> Vec<Offence> {
        let manifest = format!("crates/{from}/Cargo.toml");
        edges_of(&Crate { name: from.into(), manifest, uses: vec![Use { name: to.into(), is_dev }] })
    }

    #[test]
    fn upward_and_unlisted_edges_are_flagged() {
        let up = uses("queue", "engine", false);
        assert_eq!(up.len(), 1);
        assert!(
            up[0].to_string().contains("crates/queue/Cargo.toml:1: layer 2 names layer 4: queue -> engine"),
            "{}",
            up[0]
        );
        assert_eq!(uses("queue", "store", true).len(), 1, "a dev-dependency looks up as well");
        assert_eq!(uses("queue", "route", false).len(), 1, "inside a layer and not listed");
        assert_eq!(uses("message", "spool", false).len(), 1, "the listed edge holds in one direction");
        assert_eq!(uses("queue", "clock", false), []);
        assert_eq!(uses("spool", "message", false), []);
    }

    #[test]
    fn a_crate_without_a_layer_is_flagged() {
        assert_eq!(uses("newcomer", "clock", false)[0].name, "newcomer");
    }

    #[test]
    fn drivers_libraries_stay_out_of_deciders_and_mlua_in_lua() {
        assert_eq!(uses("queue", "tokio", false).len(), 1);
        assert_eq!(uses("queue", "fastrand", true), [], "tests may roll dice");
        assert_eq!(uses("engine", "tokio", false), []);
        assert_eq!(uses("engine", "mlua", false).len(), 1);
        assert_eq!(uses("engine", "mlua", true).len(), 1);
        assert_eq!(uses("lua", "mlua", false), []);
    }

    #[test]
    fn rows_that_are_no_longer_true_are_flagged() {
        let names = edges(&[]);
        assert!(names.iter().any(|o| o.what.contains("crate queue has a layer but does not exist")));
        assert!(names.iter().any(|o| o.what.contains("edge spool -> message is allowed but does not exist")));
    }
}
