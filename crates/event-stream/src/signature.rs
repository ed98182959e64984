//! What proves to a receiver that a batch is ours, and not an old one.
//!
//! Pure. In: the key, what header fields say, and the body. Out: HMAC-SHA256 (RFC 2104) in hex over the time of the attempt, the
//! stream, the batch's id and the cursor, each as it stands in its header field and followed by a line feed, and the body. So
//! nobody on the way can give a batch the id of another, or to another stream.

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;

/// The signature of a body sent with these fields (time, stream, id, cursor), as it stands in its header field: `v1=HEX`.
pub(crate) fn signature(key: &[u8], fields: [&str; 4], body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for field in fields {
        context.update(field.as_bytes());
        context.update(b"\n");
    }
    context.update(body);
    format!("v1={}", HEXLOWER.encode(context.sign().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_other_programs_compute() {
        // printf '1795575600\ncrm\nid\ncursor\n[{"type":"Delivery"}]' | openssl dgst -sha256 -hmac s3cret
        let expected = "v1=0562a727f5de29112ac0ad9327b1d6e0eb6d130beea88cb54c59518b3bdf23da";
        let signed = |key: &[u8], fields, body: &str| signature(key, fields, body.as_bytes());
        let body = r#"[{"type":"Delivery"}]"#;
        assert_eq!(signed(b"s3cret", ["1795575600", "crm", "id", "cursor"], body), expected);
        for fields in [
            ["1795575601", "crm", "id", "cursor"],
            ["1795575600", "crm2", "id", "cursor"],
            ["1795575600", "crm", "i", "cursor"],
            ["1795575600", "crm", "id", "cursors"],
        ] {
            assert_ne!(signed(b"s3cret", fields, body), expected, "{fields:?}");
        }
        assert_ne!(signed(b"s3cre", ["1795575600", "crm", "id", "cursor"], body), expected);
    }
}
