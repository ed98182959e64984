//! Until when a certificate is good, and whether that is to be said.
//!
//! In: DER, now. Out: words for the operator, or nothing. Pure. What does not read is for others to refuse.

use x509_parser::asn1_rs::FromDer;
use x509_parser::certificate::X509Certificate;

/// What is wrong with the time that a certificate is good for, at `now` in seconds since 1970: it has not begun, it is over, or it
/// is about to be.
pub(crate) fn complaint(der: &[u8], now: i64) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let (begins, ends) = (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    if now < begins {
        return Some(format!("is not good yet: in {}", span(begins - now)));
    }
    if now > ends {
        return Some(format!("expired {} ago", span(now - ends)));
    }
    let is_soon = ends - now < SOON_SECS.min((ends - begins) / SOON_PART);
    is_soon.then(|| format!("expires in {}", span(ends - now)))
}

fn span(secs: i64) -> String {
    match secs {
        ..7_200 => format!("{} minutes", secs / 60),
        7_200..172_800 => format!("{} hours", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

/// By then what renews by itself has done so,
const SOON_SECS: i64 = 14 * 86_400;
/// or when so much of a short time is left.
const SOON_PART: i64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// Of one from 2030-01-01 to the day that is given, how many hours after it begins.
    fn said(year: i32, month: u8, day: u8, hours: i64) -> Option<String> {
        let mut params = CertificateParams::new(vec!["mx.test".to_owned()]).expect("sound");
        (params.not_before, params.not_after) = (date_time_ymd(2030, 1, 1), date_time_ymd(year, month, day));
        let made = params.self_signed(&KeyPair::generate().expect("a key")).expect("made");
        complaint(made.der(), 1_893_456_000 + hours * 3_600)
    }

    #[test]
    fn it_is_said_of_what_is_over_or_soon_will_be() {
        let of_three_months = |hours| said(2030, 4, 1, hours);
        assert_eq!(of_three_months(-30).as_deref(), Some("is not good yet: in 30 hours"));
        assert_eq!(of_three_months(24 * 78), None);
        assert_eq!(of_three_months(24 * 80).as_deref(), Some("expires in 10 days"));
        assert_eq!(of_three_months(24 * 90 + 1).as_deref(), Some("expired 60 minutes ago"));
        assert_eq!((said(2031, 1, 1, 24 * 350), said(2030, 1, 7, 24 * 5)), (None, None), "of a year, of six days");
        assert_eq!(said(2031, 1, 1, 24 * 352).as_deref(), Some("expires in 13 days"));
        assert_eq!(said(2030, 1, 7, 24 * 6 - 17).as_deref(), Some("expires in 17 hours"));
        assert_eq!(complaint(b"no certificate", 0), None);
    }
}
