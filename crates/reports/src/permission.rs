//! Whether somebody else wants the DMARC reports about a domain (RFC 7489 section 7.1).
//!
//! In: the domain, an address, the organisations of both, and TXT records. Out: which name to ask, and whether the answer is
//! yes. Without this question anybody could have anybody's mailbox filled. Cannot fail.

/// The name whose TXT record says that `receiver` takes reports about `domain`.
pub fn name(domain: &str, receiver: &str) -> String {
    format!("{domain}._report._dmarc.{receiver}")
}

/// Nobody is to be asked: both belong to the same organisation.
pub fn is_needless(organisation_of_domain: &str, organisation_of_receiver: &str) -> bool {
    organisation_of_domain.eq_ignore_ascii_case(organisation_of_receiver)
}

/// True when one of the TXT records of [`name`] says yes. What else it says (`rua=`) does not count: it may send the report
/// to another address of the same receiver, which is a convenience for him and one more thing that can be got wrong.
pub fn is_given<T: AsRef<[u8]>>(texts: &[T]) -> bool {
    texts.iter().any(|text| {
        let text = text.as_ref();
        let first = text.split(|octet| *octet == b';').next().unwrap_or_default();
        let mut halves = first.splitn(2, |octet| *octet == b'=');
        let mut next = || halves.next().unwrap_or_default().trim_ascii();
        (next(), next()) == (b"v", b"DMARC1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_record_of_dmarc_is_a_yes() {
        assert_eq!(name("a.test", "b.test"), "a.test._report._dmarc.b.test");
        for yes in ["v=DMARC1", "v=DMARC1;", " v = DMARC1 ; rua=mailto:x@b.test"] {
            assert!(is_given(&["other", yes]), "{yes}");
        }
        for no in ["", "v=DMARC2", "v=DMARC1x", "DMARC1", "x=1;v=DMARC1"] {
            assert!(!is_given(&[no]), "{no}");
        }
        assert!(is_needless("a.test", "A.test") && !is_needless("a.test", "b.test"));
    }
}
