//! Fields of a header, from texts that templates made.
//!
//! A text can never become a second field: line ends within it are refused where no blank follows. Mailboxes are written as
//! such, with their names quoted or encoded.

use mimepart::{AddrSpec, FieldKind, FieldValue, Headers, Mailbox};

/// A mailbox in the form it has in a header.
pub(crate) fn mailbox(email: &str, name: Option<&str>) -> Result<String, String> {
    let parsed = smtp_wire::Mailbox::parse(email.trim()).map_err(|error| error.to_string())?;
    let address = AddrSpec { local_part: parsed.user().into_owned(), domain: parsed.domain().to_owned() };
    let name = name.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let value = FieldValue::Mailbox(Mailbox { name, address });
    FieldKind::Mailbox.write("From", &value).map(|(text, _)| text).map_err(|error| error.to_string())
}

/// Adds a field at the start.
pub(crate) fn prepend(headers: &mut Headers, name: &str, text: &str) -> Result<(), String> {
    let text = one_line(text).map_err(|why| format!("header {name}: {why}"))?;
    headers.prepend_sendable(name, &text).map_err(|error| format!("header {name}: {error}"))
}

/// The text unfolded, if it is one line or a folded one (RFC 5322 section 2.2.3).
fn one_line(text: &str) -> Result<String, String> {
    let lines: Vec<&str> = text.trim_end().split('\n').map(|line| line.trim_end_matches('\r')).collect();
    let is_folded = lines.iter().skip(1).all(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    if !is_folded || lines.iter().any(|line| line.contains('\r')) {
        return Err("it has a line end in it: expected one line".to_owned());
    }
    Ok(lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_become_another_field() {
        assert_eq!(one_line("a\r\n b\n\tc\r\n").as_deref(), Ok("a b\tc"));
        for text in ["a\r\nBcc: x@y.test", "a\nb", "a\rb", "a\r\n\r\nbody", "a\n \nb"] {
            assert!(one_line(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn names_are_quoted_or_encoded() {
        assert_eq!(mailbox("a@b.test", None).as_deref(), Ok("a@b.test"));
        assert_eq!(mailbox("a@b.test", Some("A, B")).as_deref(), Ok("\"A, B\" <a@b.test>"));
        assert_eq!(mailbox("a@b.test", Some("Jörg")).as_deref(), Ok("=?UTF-8?Q?J=C3=B6rg?= <a@b.test>"));
        assert!(mailbox("nobody", None).is_err());
    }
}
