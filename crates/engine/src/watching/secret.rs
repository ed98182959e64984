//! What of a session watchers must not see: the passwords of AUTH (RFC 4954).
//!
//! In: both sides' octets in their order. Out: those of the client with what proves who he is replaced. Pure.

use std::borrow::Cow;

/// Knows whether the client's next octets are secret.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Secret {
    is_next: bool,
}

impl Secret {
    /// The server has said this: after 334 comes something secret.
    pub fn asked(&mut self, said: &[u8]) {
        let last = said.strip_suffix(b"\r\n").unwrap_or(said);
        let line = last.iter().rposition(|octet| *octet == b'\n').map_or(last, |end| &last[end + 1..]);
        self.is_next = line.starts_with(b"334");
    }

    /// What may be shown of what the client says, which may come in pieces.
    pub fn hide<'a>(&mut self, said: &'a [u8]) -> Cow<'a, [u8]> {
        let lines = || said.split_inclusive(|octet| *octet == b'\n');
        if !self.is_next && !lines().any(is_auth) {
            return Cow::Borrowed(said);
        }
        let mut shown = Vec::with_capacity(said.len());
        for line in lines() {
            if !self.is_next && !is_auth(line) {
                shown.extend_from_slice(line);
                continue;
            }
            if !self.is_next {
                // Command and mechanism are no secret.
                line.split(|octet| *octet == b' ').take(2).for_each(|word| {
                    shown.extend_from_slice(word.trim_ascii_end());
                    shown.push(b' ');
                });
            }
            shown.extend_from_slice(b"(hidden)\r\n");
            self.is_next = !line.ends_with(b"\n");
        }
        Cow::Owned(shown)
    }
}

/// AUTH with something behind its mechanism, or whose end is still to come.
fn is_auth(line: &[u8]) -> bool {
    let is_command = line.get(..5).is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH "));
    is_command && (!line.ends_with(b"\n") || line.split(|octet| *octet == b' ').count() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secret: &mut Secret, said: &str) -> String {
        String::from_utf8_lossy(&secret.hide(said.as_bytes())).into_owned()
    }

    #[test]
    fn proofs_are_hidden_and_nothing_else() {
        let mut secret = Secret::default();
        for plain in ["EHLO auth \r\n", "AUTH LOGIN\r\n", "Auth was not what they had in mind\r\n"] {
            assert_eq!(shown(&mut secret, plain), plain);
        }
        assert_eq!(shown(&mut secret, "AUTH PLAIN AGEAc2VjcmV0\r\n"), "AUTH PLAIN (hidden)\r\n");
        assert_eq!(
            shown(&mut secret, "RSET\r\nauth login dXNlcg==\r\nNOOP\r\n"),
            "RSET\r\nauth login (hidden)\r\nNOOP\r\n"
        );
        secret.asked(b"334 VXNlcm5hbWU6\r\n");
        assert_eq!(shown(&mut secret, "c2VjcmV0\r\nMAIL FROM:<>\r\n"), "(hidden)\r\nMAIL FROM:<>\r\n");
        assert_eq!(shown(&mut secret, "NOOP\r\n"), "NOOP\r\n");
        secret.asked(b"250 ok\r\n334 \r\n");
        assert_eq!(shown(&mut secret, "in pie"), "(hidden)\r\n");
        assert_eq!(shown(&mut secret, "ces\r\n"), "(hidden)\r\n");
        secret.asked(b"235 welcome\r\n");
        assert_eq!(shown(&mut secret, "QUIT\r\n"), "QUIT\r\n");
    }

    #[test]
    fn a_command_that_comes_in_pieces_is_hidden_to_its_end() {
        let mut secret = Secret::default();
        assert_eq!(shown(&mut secret, "AUTH PLAIN AGEA"), "AUTH PLAIN (hidden)\r\n");
        assert_eq!(shown(&mut secret, "c2VjcmV0\r\nNOOP\r\n"), "(hidden)\r\nNOOP\r\n");
    }
}
