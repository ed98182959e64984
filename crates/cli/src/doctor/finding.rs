//! A finding: what was looked at, how it stands, and what helps. And how findings are shown to people and to programs.
//!
//! In: findings. Out: text, a line each with its fix below it, or one JSON object. Cannot fail but by the writer.

use crate::output::shown;
use serde_json::{Value, json};
use std::io::{self, Write};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Ok,
    /// Mail moves, but not as well as it could; or it could not be found out.
    Warning,
    /// Mail does not move, or is not taken for what it is.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "problem",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Which check: `ptr`, `spf`, ...
    pub check: &'static str,
    /// Of what: an address, a domain, a file.
    pub subject: String,
    pub verdict: Verdict,
    /// What was found.
    pub what: String,
    /// What helps; of everything that is not well.
    pub fix: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, subject: impl ToString, what: impl Into<String>) -> Finding {
        Finding { check, subject: subject.to_string(), verdict: Verdict::Ok, what: what.into(), fix: None }
    }

    pub fn warning(
        check: &'static str,
        subject: impl ToString,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { verdict: Verdict::Warning, fix: Some(fix.into()), ..Finding::ok(check, subject, what) }
    }

    pub fn problem(
        check: &'static str,
        subject: impl ToString,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Finding {
        Finding { verdict: Verdict::Problem, fix: Some(fix.into()), ..Finding::ok(check, subject, what) }
    }
}

/// For people: what is well in a line each, what is not with its fix.
pub(super) fn print(findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        let Finding { check, subject, verdict, what, fix } = finding;
        writeln!(out, "{:<8} {check:<9} {}: {}", verdict.word(), shown(subject), shown(what))?;
        if let Some(fix) = fix {
            writeln!(out, "{:19}-> {}", "", shown(fix))?;
        }
    }
    let [ok, warnings, problems] = counts(findings);
    writeln!(out, "\nproblems: {problems}, warnings: {warnings}, ok: {ok}")
}

/// For programs.
pub(super) fn to_json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let Finding { check, subject, verdict, what, fix } = finding;
        json!({"check": check, "subject": subject, "verdict": verdict.word(), "what": what, "fix": fix})
    };
    let [ok, warnings, problems] = counts(findings);
    json!({"problems": problems, "warnings": warnings, "ok": ok, "findings": findings.iter().map(one).collect::<Vec<_>>()})
}

/// Those that are well, warnings, problems.
pub(super) fn counts(findings: &[Finding]) -> [usize; 3] {
    [Verdict::Ok, Verdict::Warning, Verdict::Problem]
        .map(|verdict| findings.iter().filter(|finding| finding.verdict == verdict).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_well_is_shown_with_its_fix() {
        let findings = [
            Finding::ok("ptr", "192.0.2.1", "mta1.example.com leads back"),
            Finding::warning("clock", "this machine", "nobody\nsets it", "install chrony"),
            Finding::problem("spf", "example.com", "no record", "publish one"),
            Finding::problem("mx", "example.com", "nobody", "publish one"),
        ];
        let mut text = Vec::new();
        print(&findings, &mut text).expect("a vector takes all");
        let expected = "ok       ptr       192.0.2.1: mta1.example.com leads back\n\
                        warning  clock     this machine: nobody\\nsets it\n                   -> install chrony\n\
                        problem  spf       example.com: no record\n                   -> publish one\n\
                        problem  mx        example.com: nobody\n                   -> publish one\n\
                        \nproblems: 2, warnings: 1, ok: 1\n";
        assert_eq!(String::from_utf8_lossy(&text), expected);
        let json = to_json(&findings);
        assert_eq!((&json["problems"], &json["findings"][2]["fix"]), (&json!(2), &json!("publish one")));
        assert_eq!(json["findings"][0]["fix"], Value::Null);
    }
}
