//! Whether a message's header needs SMTPUTF8 to travel (RFC 6531): its client said SMTPUTF8, and there are octets beyond ASCII in it.
//!
//! Without that word such octets are what older programs send, and are passed on as they came. Addresses are looked at where they
//! are sent.

use crate::Meta;

/// Notes what the client said, where it matters for such a header.
pub fn note_header_utf8(meta: &mut Meta, head: &[u8]) {
    if !head.is_ascii() {
        meta.set(HEADER_UTF8, true);
    }
}

/// Whether the header needs it, as it is now.
pub fn header_needs_utf8(meta: &Meta, head: &[u8]) -> bool {
    !head.is_ascii() && meta.get(HEADER_UTF8).is_some_and(|said| said == true)
}

const HEADER_UTF8: &str = "postrider:header_utf8";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_both_the_word_and_the_octets() {
        let (plain, wide) = (b"Subject: cafe\r\n\r\n", "Subject: caf\u{e9}\r\n\r\n".as_bytes());
        let (mut said, mut said_in_vain) = (Meta::new(), Meta::new());
        note_header_utf8(&mut said, wide);
        note_header_utf8(&mut said_in_vain, plain);
        assert!(header_needs_utf8(&said, wide) && !header_needs_utf8(&said, plain), "policy made it ASCII");
        assert!(!header_needs_utf8(&Meta::new(), wide) && said_in_vain == Meta::new());
    }
}
