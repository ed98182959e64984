//! Certificates of listeners: whose they are, and until when.
//!
//! In: PEM, the name clients know us by, now. Out: a finding. Pure. Whether a chain leads to an anchor is not judged: those who
//! send mail to us seldom verify, those who submit bring their own anchors.

use super::finding::Finding;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

/// Judges the first certificate of `pem`; `Err` is why it could not be read.
pub(super) fn judge(listen: &str, pem: &Result<Vec<u8>, String>, hostname: &str, now_unix_secs: i64) -> Finding {
    let octets = match pem {
        Ok(octets) => octets,
        Err(why) => return Finding::problem("tls", listen, why.as_str(), RENEW),
    };
    let der = match CertificateDer::from_pem_slice(octets) {
        Ok(der) => der,
        Err(error) => return Finding::problem("tls", listen, format!("no certificate: {error}"), RENEW),
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else {
        return Finding::problem("tls", listen, "a certificate that cannot be read", RENEW);
    };
    let left_days = (certificate.validity().not_after.timestamp() - now_unix_secs).div_euclid(86_400);
    let names = names(&certificate);
    let shown = names.join(", ");
    if left_days < 0 {
        return Finding::problem("tls", listen, format!("the certificate of {shown} has expired"), RENEW);
    }
    if left_days < RENEWED_DAYS {
        return Finding::warning("tls", listen, format!("the certificate of {shown} ends in {left_days} days"), RENEW);
    }
    if !names.iter().any(|name| covers(name, hostname)) {
        let what = format!("the certificate is for {shown}, not for {hostname}");
        return Finding::warning("tls", listen, what, "have one made for the name in MX records and EHLO");
    }
    Finding::ok("tls", listen, format!("the certificate of {shown} has {left_days} days"))
}

fn names(certificate: &X509Certificate) -> Vec<String> {
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let names = alternatives.iter().flat_map(|names| &names.value.general_names);
    names
        .filter_map(|name| if let GeneralName::DNSName(name) = name { Some((*name).to_owned()) } else { None })
        .collect()
}

fn covers(name: &str, hostname: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(above) => hostname.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(above)),
        None => name.eq_ignore_ascii_case(hostname),
    }
}

const RENEW: &str =
    "renew it, for instance with certbot; a running server reads it again at `systemctl reload postrider`";
/// By then what renews by itself has done so.
const RENEWED_DAYS: i64 = 14;

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict;
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn a_certificate_is_ours_and_lasts() {
        let mut params = CertificateParams::new(vec!["mta1.test".to_owned(), "*.mx.test".to_owned()]).expect("names");
        params.not_after = date_time_ymd(2030, 1, 31);
        let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        let end = date_time_ymd(2030, 1, 31).unix_timestamp();
        let judged = |hostname: &str, days: i64| {
            let finding = judge("0.0.0.0:25", &Ok(certificate.pem().into_bytes()), hostname, end - days * 86_400);
            assert_eq!(finding.verdict == Verdict::Ok, finding.fix.is_none());
            finding.verdict
        };
        assert_eq!([judged("MTA1.test", 14), judged("a.mx.test", 14)], [Verdict::Ok; 2]);
        assert_eq!(judged("mta1.test", 13), Verdict::Warning);
        assert_eq!(judged("mta1.test", -1), Verdict::Problem);
        assert_eq!([judged("a.b.mx.test", 14), judged("mx.test", 14)], [Verdict::Warning; 2]);
    }

    #[test]
    fn what_cannot_be_read_is_a_problem() {
        let judged =
            |pem: Result<&[u8], &str>| judge("l", &pem.map(<[u8]>::to_vec).map_err(str::to_owned), "m", 0).verdict;
        assert_eq!(judged(Err("EACCES")), Verdict::Problem);
        assert_eq!(judged(Ok(b"hello")), Verdict::Problem);
        assert_eq!(judged(Ok(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")), Verdict::Problem);
    }
}
