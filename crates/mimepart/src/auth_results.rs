//! Authentication-Results as plain data (RFC 8601 section 2.2).
//!
//! Read: comments are dropped, values unquoted. Fails when a result has no `=`. Written: what is written is read again and
//! must be the same. The results have the shape of KumoMTA's AuthenticationResult.

use crate::scan::{Scanner, is_token, quote, unfolded};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `{serv_id, version, results}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthenticationResults {
    /// Who checked.
    pub serv_id: String,
    /// Of the field's form; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Empty for `none`.
    #[serde(default)]
    pub results: Vec<AuthenticationResult>,
}

/// `{method, method_version, result, reason, props}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthenticationResult {
    /// `dkim`, `spf`, ...
    pub method: String,
    /// Of the method; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method_version: Option<u32>,
    /// `pass`, `fail`, `none`, ...
    pub result: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was looked at: `smtp.mailfrom`, `header.d`.
    #[serde(default)]
    pub props: BTreeMap<String, String>,
}

impl AuthenticationResults {
    /// Reads the raw value of a field.
    pub(crate) fn read(raw: &[u8]) -> Result<AuthenticationResults, String> {
        let text = unfolded(raw);
        let mut scanner = Scanner::new(&text);
        let serv_id = value(&mut scanner);
        if serv_id.is_empty() {
            return Err("no authserv-id".to_owned());
        }
        scanner.skip_blanks();
        let version = number(scanner.word(&[';']))?;
        let mut results = Vec::new();
        loop {
            scanner.skip_blanks();
            if !scanner.eat(';') {
                break;
            }
            if results.len() == RESULTS_MAX {
                return Err(format!("more than {RESULTS_MAX} results"));
            }
            results.extend(result(&mut scanner)?);
        }
        if !scanner.is_at_end() {
            return Err(format!("{:?} where a semicolon was expected", scanner.until(|_| false)));
        }
        Ok(AuthenticationResults { serv_id, version, results })
    }

    /// The value of a field, each result on a line of its own.
    pub(crate) fn write(&self) -> Result<String, String> {
        let mut out = written(&self.serv_id);
        if let Some(version) = self.version {
            out.push_str(&format!(" {version}"));
        }
        if self.results.is_empty() {
            out.push_str("; none");
        }
        for result in &self.results {
            out.push_str(&format!(";\r\n\t{}", result.method));
            if let Some(version) = result.method_version {
                out.push_str(&format!("/{version}"));
            }
            out.push_str(&format!("={}", result.result));
            if let Some(reason) = &result.reason {
                out.push_str(&format!("\r\n\treason={}", quote(reason)));
            }
            for (name, value) in &result.props {
                out.push_str(&format!("\r\n\t{name}={}", written(value)));
            }
        }
        match AuthenticationResults::read(out.as_bytes()) {
            Ok(again) if again == *self => Ok(out),
            Ok(_) => Err("it would not read as what was meant".to_owned()),
            Err(reason) => Err(reason),
        }
    }
}

/// One result, the semicolon before it already taken.
fn result(scanner: &mut Scanner) -> Result<Option<AuthenticationResult>, String> {
    scanner.skip_blanks();
    let method = scanner.word(&['=', '/', ';']).to_owned();
    scanner.skip_blanks();
    if matches!(scanner.peek(), None | Some(';')) && (method.is_empty() || method.eq_ignore_ascii_case("none")) {
        return Ok(None);
    }
    let method_version = if scanner.eat('/') {
        number({
            scanner.skip_blanks();
            scanner.word(&['=', ';'])
        })?
    } else {
        None
    };
    let mut found = AuthenticationResult { method, method_version, ..AuthenticationResult::default() };
    found.result = assigned(scanner, &found.method)?;
    loop {
        scanner.skip_blanks();
        if matches!(scanner.peek(), None | Some(';')) {
            return Ok(Some(found));
        }
        let name = scanner.word(&['=', ';']).to_owned();
        let value = assigned(scanner, &name)?;
        if name.eq_ignore_ascii_case("reason") {
            found.reason = Some(value);
        } else {
            found.props.insert(name, value);
        }
    }
}

/// `= value` behind `name`.
fn assigned(scanner: &mut Scanner, name: &str) -> Result<String, String> {
    scanner.skip_blanks();
    if name.is_empty() || !scanner.eat('=') {
        return Err(format!("{name:?} without a value"));
    }
    Ok(value(scanner))
}

fn value(scanner: &mut Scanner) -> String {
    scanner.skip_blanks();
    scanner.quoted().unwrap_or_else(|| scanner.word(&[';']).to_owned())
}

fn number(word: &str) -> Result<Option<u32>, String> {
    if word.is_empty() { Ok(None) } else { word.parse().map(Some).map_err(|_| format!("version {word:?}")) }
}

/// A value as it is when it may stand so: tokens, and addresses around an at sign.
fn written(value: &str) -> String {
    let is_plain = value.split('@').all(|side| side.is_empty() || is_token(side)) && !value.is_empty();
    if is_plain { value.to_owned() } else { quote(value) }
}

/// Most results in one field.
pub const RESULTS_MAX: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_written() {
        let raw = b"mx.example 1 (note); spf=pass (ok) smtp.mailfrom=a@b.example;\r\n\tdkim/1=fail reason=\"bad; sig\" header.d=b.example\r\n header.i=@b.example; none";
        let read = AuthenticationResults::read(raw).expect("a field");
        assert_eq!((read.serv_id.as_str(), read.version, read.results.len()), ("mx.example", Some(1), 2));
        assert_eq!(read.results[0].props["smtp.mailfrom"], "a@b.example");
        let dkim = &read.results[1];
        assert_eq!(
            (dkim.method_version, dkim.result.as_str(), dkim.reason.as_deref()),
            (Some(1), "fail", Some("bad; sig"))
        );
        assert_eq!(dkim.props["header.i"], "@b.example");
        let text = read.write().expect("usable");
        assert!(text.contains("header.i=@b.example"), "{text}");
        assert_eq!(AuthenticationResults::read(text.as_bytes()), Ok(read));
        let none = AuthenticationResults::read(b"mx.example; none").expect("a field");
        assert_eq!(none.write().as_deref(), Ok("mx.example; none"));
    }

    #[test]
    fn others_are_refused() {
        for bad in
            [b"".as_slice(), b"; spf=pass", b"mx; spf", b"mx; spf=pass x", b"mx v; none", b"mx; a/b=c", b"mx 1 2; none"]
        {
            assert!(AuthenticationResults::read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
        let bad =
            AuthenticationResult { method: "a b".into(), result: "pass".into(), ..AuthenticationResult::default() };
        let bad = AuthenticationResults { serv_id: "mx".into(), version: None, results: vec![bad] };
        assert!(bad.write().is_err());
    }

    #[test]
    fn results_at_the_bound_and_past_it() {
        let raw = |count: usize| format!("mx{}", "; spf=pass".repeat(count));
        assert!(AuthenticationResults::read(raw(RESULTS_MAX).as_bytes()).is_ok());
        assert!(AuthenticationResults::read(raw(RESULTS_MAX + 1).as_bytes()).is_err());
    }
}
