//! What a domain wants told, and when: the tags of its DMARC record (RFC 7489 section 6.3) and of its TLSRPT record (RFC 8460
//! section 3).
//!
//! In: tags or TXT records. Out: [`DmarcWants`], [`TlsWants`]. Cannot fail: what is wrong counts as not said.

use crate::uri::{ReportUri, parse_list};

/// What a DMARC record asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmarcWants {
    /// `rua=`: who gets aggregate reports.
    pub aggregate: Vec<ReportUri>,
    /// `ruf=`: who gets failure reports.
    pub failure: Vec<ReportUri>,
    /// `fo=`: about what.
    pub failure_options: FailureOptions,
}

/// What makes a failure report (`fo=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureOptions {
    /// `0`: nothing aligned passed.
    pub all_failed: bool,
    /// `1`: SPF or DKIM did not give an aligned pass.
    pub any_failed: bool,
    /// `d`: a signature failed, aligned or not.
    pub dkim: bool,
    /// `s`: SPF failed, aligned or not.
    pub spf: bool,
}

impl Default for FailureOptions {
    fn default() -> FailureOptions {
        FailureOptions { all_failed: true, any_failed: false, dkim: false, spf: false }
    }
}

impl FailureOptions {
    /// Reads `fo=`; `0` when nothing in it is known.
    pub fn parse(value: &str) -> FailureOptions {
        let has = |word: &str| value.split(':').any(|found| found.trim().eq_ignore_ascii_case(word));
        let read = FailureOptions { all_failed: has("0"), any_failed: has("1"), dkim: has("d"), spf: has("s") };
        let says_nothing = !(read.all_failed || read.any_failed || read.dkim || read.spf);
        if says_nothing { FailureOptions::default() } else { read }
    }

    /// As reports show it.
    pub fn text(self) -> String {
        let words = [(self.all_failed, "0"), (self.any_failed, "1"), (self.dkim, "d"), (self.spf, "s")];
        let said: Vec<&str> = words.into_iter().filter_map(|(is_said, word)| is_said.then_some(word)).collect();
        said.join(":")
    }
}

impl DmarcWants {
    /// From the values of `rua=`, `ruf=`, `fo=` and `rf=`, where they are. Reports that are sent are of the form `afrf`: who
    /// wants another gets no failure reports.
    pub fn new(rua: Option<&str>, ruf: Option<&str>, fo: Option<&str>, rf: Option<&str>) -> DmarcWants {
        let is_afrf = rf.is_none_or(|forms| forms.split(':').any(|form| form.trim().eq_ignore_ascii_case("afrf")));
        let mailed = |list: Option<&str>| {
            let uris = list.map(parse_list).unwrap_or_default().into_iter();
            uris.filter(|uri| uri.mail_domain().is_some()).collect()
        };
        DmarcWants {
            aggregate: mailed(rua),
            failure: mailed(ruf.filter(|_| is_afrf)),
            failure_options: fo.map(FailureOptions::parse).unwrap_or_default(),
        }
    }
}

/// What a TLSRPT record asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsWants {
    /// `rua=`.
    pub reports_to: Vec<ReportUri>,
}

impl TlsWants {
    /// The name that the record of a domain has.
    pub fn name(domain: &str) -> String {
        format!("_smtp._tls.{domain}")
    }

    /// The one record among TXT records; several are none (RFC 8460 section 3).
    pub fn find<T: AsRef<[u8]>>(texts: &[T]) -> Option<TlsWants> {
        let mut records = texts.iter().filter_map(|text| TlsWants::parse(text.as_ref()));
        records.next().filter(|_| records.next().is_none())
    }

    fn parse(record: &[u8]) -> Option<TlsWants> {
        let text = std::str::from_utf8(record.get(..record.len().min(RECORD_OCTETS_MAX))?).ok()?;
        let mut tags = text.split(';').map(str::trim);
        let is_version = tags
            .next()
            .and_then(|tag| tag.split_once('='))
            .is_some_and(|(name, value)| name.trim() == "v" && value.trim() == "TLSRPTv1");
        if !is_version {
            return None;
        }
        let rua = tags.filter_map(|tag| tag.split_once('=')).find(|(name, _)| name.trim() == "rua");
        rua.map(|(_, value)| TlsWants { reports_to: parse_list(value) })
    }
}

/// Octets of a record that are looked at.
const RECORD_OCTETS_MAX: usize = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tlsrpt_records_are_read() {
        let record =
            TlsWants::find(&["x", "v=TLSRPTv1; rua=mailto:r@a.test,https://a.test/v1;ext=1;"]).expect("a record");
        let targets: Vec<&str> = record.reports_to.iter().map(|uri| uri.target.as_str()).collect();
        assert_eq!(targets, ["r@a.test", "https://a.test/v1"]);
        for none in [&["v=TLSRPTv1"][..], &["v=TLSRPTv2;rua=mailto:a@b.test"], &["rua=mailto:a@b.test;v=TLSRPTv1"]] {
            assert_eq!(TlsWants::find(none), None, "{none:?}");
        }
        let two = ["v=TLSRPTv1;rua=mailto:a@b.test", "v=TLSRPTv1;rua=mailto:c@b.test"];
        assert_eq!(TlsWants::find(&two), None, "of several none counts");
        assert_eq!(TlsWants::name("a.test"), "_smtp._tls.a.test");
    }

    #[test]
    fn failure_options_are_read() {
        let read = FailureOptions::parse("1 : D:x");
        assert_eq!((read.any_failed, read.dkim, read.spf, read.text().as_str()), (true, true, false, "1:d"));
        assert_eq!(FailureOptions::parse("x"), FailureOptions::default());
        assert_eq!(FailureOptions::default().text(), "0");
    }

    #[test]
    fn dmarc_reports_go_by_mail_only() {
        let wants =
            DmarcWants::new(Some("https://a.test/,mailto:a@b.test"), Some("mailto:f@b.test"), None, Some("iodef"));
        assert_eq!((wants.aggregate.len(), wants.failure.len()), (1, 0));
        let wants = DmarcWants::new(None, Some("mailto:f@b.test"), Some("s"), Some("iodef:AFRF"));
        assert_eq!((wants.aggregate.len(), wants.failure.len(), wants.failure_options.spf), (0, 1, true));
    }
}
