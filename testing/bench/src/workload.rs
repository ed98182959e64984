//! What is measured: the table of workloads, one row each. In: nothing. Out: names, sizes, counts.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::generator::Order;
use crate::stage::Stage;

/// Signing done by the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Signing {
    /// None.
    Unsigned,
    /// RSA, 2048 bits.
    Rsa,
    /// Ed25519.
    Ed25519,
}

impl Signing {
    /// As it stands in a table.
    pub fn word(self) -> &'static str {
        match self {
            Signing::Unsigned => "unsigned",
            Signing::Rsa => "RSA",
            Signing::Ed25519 => "Ed25519",
        }
    }

    /// The key to sign with.
    pub fn key(self, stage: &Stage) -> Option<PathBuf> {
        match self {
            Signing::Unsigned => None,
            Signing::Rsa => Some(stage.keys.rsa.clone()),
            Signing::Ed25519 => Some(stage.keys.ed25519.clone()),
        }
    }
}

/// What the server does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// Store it, hand it to the sink.
    Relay(Signing),
    /// The same by a policy in which everything goes through helpers.
    Production(Signing),
    /// Store it, put it into a Maildir.
    Local,
    /// Take it and throw it away.
    Discard,
}

/// Where the messages of a run go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// The generator's own few domains, all served by one host.
    One,
    /// So many domains, and a scheduled queue for each, all served by one host.
    Queues(u32),
    /// So many domains, each with a host, and so a ready queue and connections, of its own.
    Domains(u32),
}

/// How messages get in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// SMTP.
    Smtp,
    /// The injection API, a request for so many recipients, each of whom gets a message.
    Http(u32),
    /// The same in streams, a line for each message.
    Bulk,
}

/// One row of the benchmark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Size of a message in units of 1024 octets.
    pub size_kib: u32,
    /// What becomes of it.
    pub duty: Duty,
    /// How it gets in.
    pub over: Over,
    /// Connections of the generator.
    pub concurrency: u32,
    /// Messages of a run: enough for some seconds at the rate aimed at.
    pub messages: u64,
    /// Where they go.
    pub spread: Spread,
    /// Whether the generator sends commands in groups.
    pub pipelined: bool,
    /// The kind of spool that policy names, if any.
    pub kind: Option<&'static str>,
}

impl Workload {
    /// Relaying over 100 connections.
    pub fn relay(size_kib: u32, signing: Signing, messages: u64) -> Workload {
        Workload {
            size_kib,
            duty: Duty::Relay(signing),
            over: Over::Smtp,
            concurrency: 100,
            messages,
            spread: Spread::One,
            pipelined: true,
            kind: None,
        }
    }

    /// Throwing away what comes over 100 connections.
    pub fn discard(size_kib: u32, messages: u64) -> Workload {
        Workload { size_kib, duty: Duty::Discard, ..Workload::relay(size_kib, Signing::Unsigned, messages) }
    }

    /// One of so many parts of it, with a message for each connection at least.
    pub fn part(&self, of: u64) -> Workload {
        Workload { messages: (self.messages / of).max(u64::from(self.concurrency)), ..self.clone() }
    }

    /// Whether another MTA can be given the same: it speaks SMTP, signs nothing by itself and has one kind of spool.
    pub fn suits_peers(&self) -> bool {
        self.duty == Duty::Relay(Signing::Unsigned) && self.over == Over::Smtp && self.kind.is_none()
    }

    /// Octets of a message.
    pub fn octets(&self) -> u64 {
        u64::from(self.size_kib) << 10
    }

    /// As it stands in a table and is chosen by `--only`.
    pub fn name(&self) -> String {
        let duty = match self.duty {
            Duty::Relay(signing) => signing.word(),
            Duty::Production(Signing::Rsa) => "RSA, production policy",
            Duty::Production(Signing::Ed25519) => "Ed25519, production policy",
            Duty::Production(Signing::Unsigned) => "unsigned, production policy",
            Duty::Local => "into a Maildir",
            Duty::Discard => "discarded",
        };
        let to = match self.spread {
            Spread::One => String::new(),
            Spread::Queues(count) => format!(", {count} queues"),
            Spread::Domains(count) => format!(", {count} domains"),
        };
        let over = match self.over {
            Over::Smtp => String::new(),
            Over::Http(recipients) => format!(" over HTTP for {recipients} at once"),
            Over::Bulk => " over HTTP in bulk".to_owned(),
        };
        let singly = if self.pipelined { "" } else { ", no pipelining" };
        let kind = self.kind.map(|kind| format!(", {kind}")).unwrap_or_default();
        format!("{} KB {duty}{over}, {} connections{to}{singly}{kind}", self.size_kib, self.concurrency)
    }

    /// What the generator does in one run, with files of this name.
    pub fn order(&self, name: &str) -> Order {
        let domains = match self.spread {
            Spread::One => 0,
            Spread::Queues(count) | Spread::Domains(count) => count,
        };
        Order {
            name: name.to_owned(),
            octets: self.octets(),
            messages: self.messages,
            concurrency: self.concurrency,
            domains: (1..=domains).map(|number| format!("d{number:04}")).collect(),
            persistent: false,
            rate: None,
            pipelined: self.pipelined,
            over: self.over,
        }
    }

    /// What the relay's policy is told.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment: Vec<(&'static str, OsString)> = Vec::new();
        if let Spread::Domains(_) = self.spread {
            environment.push(("RELAY_SITES", "own".into()));
        }
        environment.extend(self.kind.map(|kind| ("RELAY_KIND", kind.into())));
        environment
    }
}

/// Every workload of `run`, in the order of the table.
pub fn all() -> Vec<Workload> {
    let mut all = Vec::new();
    for (size_kib, signing, messages) in RELAYED {
        for concurrency in [100, 2000] {
            all.push(Workload { concurrency, ..Workload::relay(size_kib, signing, messages) });
        }
    }
    for (size_kib, messages) in DISCARDED {
        all.push(Workload::discard(size_kib, messages));
    }
    let plain = Workload::relay(10, Signing::Unsigned, 40_000);
    all.extend([1, 100].map(|recipients| Workload { over: Over::Http(recipients), ..plain.clone() }));
    all.push(Workload { over: Over::Bulk, concurrency: 4, ..plain.clone() });
    all.push(Workload { kind: Some("LocalDisk"), ..plain });
    all
}

const RELAYED: [(u32, Signing, u64); 6] = [
    (10, Signing::Unsigned, 40_000),
    (10, Signing::Rsa, 15_000),
    (10, Signing::Ed25519, 40_000),
    (100, Signing::Unsigned, 12_000),
    (100, Signing::Rsa, 8_000),
    (100, Signing::Ed25519, 10_000),
];
const DISCARDED: [(u32, u64); 2] = [(10, 100_000), (100, 40_000)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_once() {
        let names: Vec<String> = all().iter().map(Workload::name).collect();
        assert_eq!(names.len(), 18);
        assert!(names.contains(&"10 KB unsigned, 100 connections".to_owned()), "{names:?}");
        assert!(names.contains(&"100 KB Ed25519, 2000 connections".to_owned()), "{names:?}");
        assert!(names.contains(&"100 KB discarded, 100 connections".to_owned()), "{names:?}");
        assert!(names.contains(&"10 KB unsigned over HTTP for 100 at once, 100 connections".to_owned()), "{names:?}");
        assert!(names.contains(&"10 KB unsigned, 100 connections, LocalDisk".to_owned()), "{names:?}");
        let of_peers: Vec<String> = all().iter().filter(|row| row.suits_peers()).map(Workload::name).collect();
        let sizes = ["10 KB", "100 KB"].map(|size| [100, 2000].map(|of| format!("{size} unsigned, {of} connections")));
        assert_eq!(of_peers, sizes.concat());
    }

    #[test]
    fn mail_is_spread_over_domains() {
        let relay = Workload::relay(1, Signing::Unsigned, 5);
        assert!(relay.order("a").domains.is_empty() && relay.environment().is_empty());
        let queues = Workload { spread: Spread::Queues(2), ..relay.clone() };
        assert_eq!(queues.order("a").domains, ["d0001", "d0002"]);
        assert!(queues.environment().is_empty());
        let domains = Workload { spread: Spread::Domains(3), ..relay };
        assert_eq!(domains.name(), "1 KB unsigned, 100 connections, 3 domains");
        assert_eq!((domains.order("a").domains.len(), domains.environment().len()), (3, 1));
    }
}
