//! The author's domain: that of the one From field (RFC 7489 section 6.6.1).
//!
//! In: header fields. Out: a domain in A-labels. Can fail: there is no From or more than one, it is no address list, or its
//! authors are of several domains; the reason is said.

use crate::text::{domain_name, shown};
use mime::{AddressList, HeaderView};

/// The domain all authors have.
///
/// # Errors
/// Why there is no such domain.
pub fn domain(headers: HeaderView<'_>) -> Result<String, String> {
    let mut fields = headers.named("From");
    let (Some(field), None) = (fields.next(), fields.next()) else {
        return Err("expected exactly one From".to_owned());
    };
    let list = AddressList::parse(field.value).map_err(|error| format!("From: {}", shown(&error.to_string())))?;
    let mut found: Option<String> = None;
    for (number, mailbox) in list.mailboxes().enumerate() {
        if number == FROM_MAILBOXES_MAX {
            return Err(format!("From has more than {FROM_MAILBOXES_MAX} authors"));
        }
        let domain = domain_name(&mailbox.domain);
        let domain = domain.ok_or_else(|| format!("From: \"{}\" is no domain name", shown(&mailbox.domain)))?;
        if found.as_ref().is_some_and(|found| *found != domain) {
            return Err("From has authors of several domains".to_owned());
        }
        found = Some(domain);
    }
    found.ok_or_else(|| "From has no author".to_owned())
}

/// Most authors of a message; with more, none of their domains counts.
pub const FROM_MAILBOXES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use mime::HeaderBlock;

    fn of(raw: &str) -> Result<String, String> {
        let raw = format!("{raw}\r\n\r\n");
        domain(HeaderBlock::parse(raw.as_bytes()).view(raw.as_bytes()))
    }

    #[test]
    fn one_author_counts() {
        assert_eq!(of("From: A <a@Ex.AMPLE>").as_deref(), Ok("ex.ample"));
        assert_eq!(of("From: \"x@evil.example\" <a@ex.ample>").as_deref(), Ok("ex.ample"));
        assert_eq!(of("From: a@ex.ample, b@ex.ample").as_deref(), Ok("ex.ample"));
        for bad in
            ["To: a@b", "From: a@b.c\r\nFrom: a@b.c", "From: a@b.c, d@e.f", "From: x", "From: g:;", "From: a@[1.2.3.4]"]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
        let many = |count: usize| of(&format!("From: {}", vec!["a@b.c"; count].join(",\r\n ")));
        assert!(many(FROM_MAILBOXES_MAX).is_ok() && many(FROM_MAILBOXES_MAX + 1).is_err());
    }
}
