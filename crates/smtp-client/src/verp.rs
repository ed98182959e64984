//! VERP: a reverse path that names the recipient, so that a bounce tells whom it is about even if it says nothing else.
//!
//! `news@lists.example` writing to `ann@home.example` with the delimiters `+=` is `news+ann=home.example@lists.example`
//! on the wire. Postfix's form. Each recipient then has a transaction of its own.

use smtp_wire::{Mailbox, ReversePath};

/// What stands before the recipient's local part, and in place of its `@`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verp {
    /// Before the local part.
    pub before: char,
    /// For the `@`.
    pub at: char,
}

impl Verp {
    /// The sender as one recipient's server is told it. As it is, where there is none or the outcome would be no
    /// address: quoted local parts, and those that would grow over 64 octets.
    pub fn sender(self, sender: &ReversePath, recipient: &Mailbox) -> ReversePath {
        let Some(path) = &sender.0 else { return ReversePath(None) };
        let named = [path.local_part(), recipient.local_part()];
        if named.iter().any(|local| local.starts_with('"')) {
            return sender.clone();
        }
        let local = format!("{}{}{}{}{}", named[0], self.before, named[1], self.at, recipient.domain());
        match Mailbox::parse(&format!("{local}@{}", path.domain())) {
            Ok(mailbox) if local.len() <= LOCAL_PART_OCTETS_MAX => ReversePath(Some(mailbox)),
            _ => sender.clone(),
        }
    }
}

/// RFC 5321 section 4.5.3.1.1.
const LOCAL_PART_OCTETS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipient_stands_in_the_sender() {
        let verp = Verp { before: '+', at: '=' };
        let long = format!("{}@l.test", "n".repeat(64 - "+ann=home.test".len()));
        for (sender, recipient, wire) in [
            ("news@l.test", "ann@home.test", "news+ann=home.test@l.test"),
            ("news+x@l.test", "a+b@home.test", "news+x+a+b=home.test@l.test"),
            ("", "ann@home.test", ""),
            ("\"a b\"@l.test", "ann@home.test", "\"a b\"@l.test"),
            ("news@l.test", "\"a b\"@home.test", "news@l.test"),
            (&long, "ann@home.test", &long.replace('@', "+ann=home.test@")),
            (&format!("n{long}"), "ann@home.test", &format!("n{long}")),
        ] {
            let found =
                verp.sender(&ReversePath::parse(sender).expect(sender), &Mailbox::parse(recipient).expect("sound"));
            assert_eq!(found.as_str(), wire);
        }
    }
}
