//! The options of `kumo.configure_dmarc_reports` and `kumo.configure_tls_reports`.
//!
//! Owns [`DmarcReports`] and [`TlsReports`]. In: a table. Out: who reports, where what is counted is kept, how much of it. Fails with
//! the option, its value and what was expected. Counting and sending are the report-sender crate's.

use crate::duration::Duration;
use crate::options::options;
use std::path::PathBuf;

options! {
    /// `kumo.configure_dmarc_reports`
    pub struct DmarcReports check check_dmarc {
        /// The name of the organisation that reports.
        org_name: String;
        /// Who reports: the author of reports, and whom to ask about them.
        email: String;
        /// More of whom to ask, as a URL.
        extra_contact_info: Option<String> = None;
        /// The domain that stands for who reports; the machine's name when absent.
        submitter: Option<String> = None;
        /// The envelope's sender of reports; null when absent, so that nobody hears of those that cannot be delivered.
        sender: Option<String> = None;
        /// The directory of what was counted. It is made when it is not there.
        dir: PathBuf = PathBuf::from("/var/spool/kumomta/reports");
        /// What a report covers: a day of UTC, or a part of one for trials.
        interval: Duration = Duration::from_secs(86_400);
        /// Within this time after the end of a period its reports are sent, each at a moment of its own.
        spread: Duration = Duration::from_secs(14_400);
        /// Most domains about which something is counted at a time.
        max_domains: usize = 20_000, min 1;
        /// Most of them that are of one organisation (the registrable domain).
        max_domains_per_organisation: usize = 1_000, min 1;
        /// Most rows of all of them.
        max_rows: usize = 100_000, min 1;
        /// Most rows of one.
        max_rows_per_domain: usize = 5_000, min 1;
        /// Whether failure reports are sent too, about single messages.
        failure_reports: bool = false;
        /// Most failure reports about a domain in an hour.
        max_failure_reports_per_hour: usize = 10, min 1;
        /// Whether failure reports keep to themselves whom a message was for.
        redact_recipients: bool = true;
    }
}

options! {
    /// `kumo.configure_tls_reports`
    pub struct TlsReports check check_tls {
        /// The name of the organisation that reports.
        org_name: String;
        /// Who reports: the author of reports, and whom to ask about them.
        email: String;
        /// The domain that stands for who reports; the machine's name when absent.
        submitter: Option<String> = None;
        /// The envelope's sender of reports; null when absent, so that nobody hears of those that cannot be delivered.
        sender: Option<String> = None;
        /// The directory of what was counted. It is made when it is not there.
        dir: PathBuf = PathBuf::from("/var/spool/kumomta/reports");
        /// What a report covers: a day of UTC, or a part of one for trials.
        interval: Duration = Duration::from_secs(86_400);
        /// Within this time after the end of a period its reports are sent, each at a moment of its own.
        spread: Duration = Duration::from_secs(14_400);
        /// Most domains about which something is counted at a time.
        max_domains: usize = 50_000, min 1;
        /// Most of them that are of one organisation (the registrable domain).
        max_domains_per_organisation: usize = 1_000, min 1;
        /// Most rows of all of them.
        max_rows: usize = 100_000, min 1;
        /// Most rows of one.
        max_rows_per_domain: usize = 1_000, min 1;
        /// Whether reports are posted to `https` URLs whose host has an address of a private network, of this machine, or of no one.
        allow_private_addresses: bool = false;
    }
}

fn check_dmarc(options: &DmarcReports) -> Result<(), String> {
    check_who(&options.org_name, &options.email, options.submitter.as_deref(), options.sender.as_deref())?;
    if options.extra_contact_info.as_deref().is_some_and(|text| !is_text(text)) {
        return Err("invalid extra_contact_info: expected up to 500 printable characters".to_owned());
    }
    check_when(&options.dir, options.interval, options.spread)
}

fn check_tls(options: &TlsReports) -> Result<(), String> {
    check_who(&options.org_name, &options.email, options.submitter.as_deref(), options.sender.as_deref())?;
    check_when(&options.dir, options.interval, options.spread)
}

fn check_who(org_name: &str, email: &str, submitter: Option<&str>, sender: Option<&str>) -> Result<(), String> {
    if !is_text(org_name) {
        return Err(format!("invalid org_name {org_name:?}: expected up to 500 printable characters"));
    }
    for (option, address) in [("email", Some(email)), ("sender", sender)] {
        if let Some(address) = address.filter(|address| !is_address(address)) {
            return Err(format!("invalid {option} {address:?}: expected an address as reports@example.com"));
        }
    }
    match submitter.filter(|submitter| !is_domain(submitter)) {
        Some(submitter) => Err(format!("invalid submitter {submitter:?}: expected a domain")),
        None => Ok(()),
    }
}

fn check_when(dir: &std::path::Path, interval: Duration, spread: Duration) -> Result<(), String> {
    if dir.as_os_str().is_empty() {
        return Err("invalid dir \"\": expected a directory".to_owned());
    }
    let seconds = interval.get().as_secs();
    if seconds == 0 || seconds > DAY_SECS || !DAY_SECS.is_multiple_of(seconds) || interval.get().subsec_nanos() != 0 {
        return Err(format!("invalid interval {interval}: expected whole seconds of which a day is a multiple"));
    }
    match spread.get().as_secs() > seconds {
        true => Err(format!("invalid spread {spread}: expected at most the interval, {interval}")),
        false => Ok(()),
    }
}

fn is_text(text: &str) -> bool {
    (1..=TEXT_CHARS_MAX).contains(&text.chars().count()) && !text.contains(char::is_control)
}

fn is_address(address: &str) -> bool {
    let local_is_plain = |local: &str| {
        (1..=64).contains(&local.len())
            && local.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~.".contains(&b))
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| local_is_plain(local) && is_domain(domain))
}

fn is_domain(domain: &str) -> bool {
    let is_label =
        |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    domain.len() <= 253 && domain.split('.').all(is_label)
}

/// Seconds of a day.
const DAY_SECS: u64 = 86_400;
/// Characters of a name.
const TEXT_CHARS_MAX: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(more: Value) -> Result<DmarcReports, String> {
        let mut options = json!({"org_name": "n", "email": "r@a.test"});
        options.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        crate::parse("kumo.configure_dmarc_reports", options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_refused_is_named() {
        for (more, why) in [
            (json!({"org_name": ""}), "invalid org_name"),
            (json!({"org_name": "a\nb"}), "invalid org_name"),
            (json!({"org_name": "x".repeat(TEXT_CHARS_MAX + 1)}), "up to 500"),
            (json!({"email": "a"}), "invalid email \"a\""),
            (json!({"email": "a b@c.test"}), "invalid email"),
            (json!({"sender": "a@b..test"}), "invalid sender"),
            (json!({"submitter": "a b"}), "invalid submitter \"a b\""),
            (json!({"extra_contact_info": ""}), "invalid extra_contact_info"),
            (json!({"dir": ""}), "invalid dir"),
            (json!({"interval": "0s"}), "invalid interval 0s"),
            (json!({"interval": "7s"}), "of which a day is a multiple"),
            (json!({"interval": "2days"}), "of which a day is a multiple"),
            (json!({"interval": "1h", "spread": "3601s"}), "invalid spread"),
            (json!({"max_rows": 0}), ">= 1"),
            (json!({"failures": true}), "failures"),
        ] {
            let error = parse(more.clone()).expect_err("refused");
            assert!(error.contains(why), "{more}: {error}");
        }
        parse(json!({"org_name": "x".repeat(TEXT_CHARS_MAX), "interval": "1h", "spread": "1h", "submitter": "mx"}))
            .expect("sound");
    }
}
