//! What may break a rule, by name and with the reason; and the check that the list stays true.
//!
//! An exception names rule, file and (see [`crate::Rule`]) the function, word or edge: not a line.
//! One that excepts nothing is itself an offence, so the list only holds what is there.

use crate::{Offence, Rule};

/// A permission to break a rule.
#[derive(Clone, Copy, Debug)]
pub struct Exception {
    /// Which rule.
    pub rule: Rule,
    /// Where.
    pub path: &'static str,
    /// What; see [`Offence::name`].
    pub name: &'static str,
    /// Why it is right there.
    pub why: &'static str,
}

/// All of them. `unsafe` has none, and is to have none.
pub const EXCEPTIONS: [Exception; 2] = [
    Exception {
        rule: Rule::Panic,
        path: "crates/queue/src/core.rs",
        name: "home",
        why: "a Queued is made where its queue's `out` is counted up and consumed where it is counted down, \
              and only a queue with nothing waiting or out is forgotten; a miss would lose an accepted message",
    },
    Exception {
        rule: Rule::Leftover,
        path: "crates/store/tests/kill.rs",
        name: "#[ignore]",
        why: "not a test but the process another test starts and kills; alone it has nobody to kill it",
    },
];

/// The offences against `rules` that no exception covers, and the exceptions from `rules` that cover none.
pub fn remaining(rules: &[Rule], offences: Vec<Offence>, exceptions: &[Exception]) -> Vec<Offence> {
    let covers = |e: &Exception, o: &Offence| e.rule == o.rule && e.path == o.path && e.name == o.name;
    let of_rules = exceptions.iter().filter(|e| rules.contains(&e.rule));
    let stale: Vec<Offence> = of_rules.filter(|e| !offences.iter().any(|o| covers(e, o))).map(stale).collect();
    let left = offences.into_iter().filter(|o| !exceptions.iter().any(|e| covers(e, o)));
    left.chain(stale).collect()
}

fn stale(exception: &Exception) -> Offence {
    Offence {
        rule: exception.rule,
        path: "testing/tidy/src/exceptions.rs".into(),
        line: 1,
        name: exception.name.into(),
        what: format!("nothing needs the exception for {} `{}`", exception.path, exception.name),
        instead: "delete it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(name: &str) -> Offence {
        let (rule, path) = (Rule::FunctionLength, "crates/queue/src/gate.rs".into());
        Offence { rule, path, line: 7, name: name.into(), what: "too long".into(), instead: "split it" }
    }

    const GATE: Exception = Exception {
        rule: Rule::FunctionLength,
        path: "crates/queue/src/gate.rs",
        name: "gate",
        why: "one match owns it",
    };

    #[test]
    fn an_exception_covers_its_name_only() {
        let left = remaining(&[Rule::FunctionLength], vec![long("gate"), long("other")], &[GATE]);
        assert_eq!(left, [long("other")]);
    }

    #[test]
    fn an_exception_nothing_needs_is_flagged() {
        let left = remaining(&[Rule::FunctionLength], vec![], &[GATE]);
        assert_eq!(left.len(), 1);
        assert!(left[0].what.contains("crates/queue/src/gate.rs `gate`"), "{}", left[0]);
        assert_eq!(remaining(&[Rule::Page], vec![], &[GATE]), [], "another rule's exceptions are not judged");
    }

    #[test]
    fn every_exception_gives_a_reason() {
        assert!(EXCEPTIONS.iter().all(|e| e.why.split_whitespace().count() >= 3));
        assert!(!EXCEPTIONS.iter().any(|e| e.name == "unsafe"));
    }
}
