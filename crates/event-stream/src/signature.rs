//! What proves to a receiver that a batch is ours, and not an old one.
//!
//! Pure. In: the key, the time of the attempt and the body. Out: HMAC-SHA256 (RFC 2104) in hex over `TIME.BODY`, where TIME is
//! seconds since 1970 in decimal digits, as it stands in its header field.

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;

/// The signature of a body sent at a time, as it stands in its header field: `v1=HEX`.
pub(crate) fn signature(key: &[u8], timestamp: i64, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    context.update(timestamp.to_string().as_bytes());
    context.update(b".");
    context.update(body);
    format!("v1={}", HEXLOWER.encode(context.sign().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_other_programs_compute() {
        // printf '1795575600.[{"type":"Delivery"}]' | openssl dgst -sha256 -hmac s3cret
        let expected = "v1=cc3a367324bb6e59aaefc365b8cac907d4b7b886c238c53a1917a75c537763a2";
        assert_eq!(signature(b"s3cret", 1_795_575_600, br#"[{"type":"Delivery"}]"#), expected);
        assert_ne!(signature(b"s3cret", 1_795_575_601, br#"[{"type":"Delivery"}]"#), expected);
        assert_ne!(signature(b"s3cre", 1_795_575_600, br#"[{"type":"Delivery"}]"#), expected);
    }
}
