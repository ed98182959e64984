//! What of a session watchers must not see: what proves who a client is (AUTH, RFC 4954).
//!
//! In: the octets of both sides in their order, in whatever pieces they come. Out: those of the client, in whole lines, with what
//! is secret replaced: what stands behind AUTH and its mechanism, and every line until the server's last word on it. What a
//! message says is shown as it is. Pure.

/// Follows a session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secret {
    says: Says,
    /// The client's line, as far as it has come.
    line: Vec<u8>,
    /// What becomes of the rest of a line whose beginning is gone: whether it is hidden.
    rest: Option<bool>,
    /// The beginning of the server's line.
    reply: Vec<u8>,
}

/// What the client's next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Says {
    /// A command.
    #[default]
    Command,
    /// Of a message.
    Content,
    /// An answer to a challenge.
    Proof,
}

impl Secret {
    /// The server says this.
    pub fn replied(&mut self, said: &[u8]) {
        let mut rest = said;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1));
            rest = behind;
            let room = REPLY_OCTETS - self.reply.len();
            self.reply.extend_from_slice(&piece[..piece.len().min(room)]);
            if !piece.ends_with(b"\n") {
                return;
            }
            let is_last = self.reply.get(3) != Some(&b'-');
            match self.reply.get(..3) {
                _ if !is_last => {}
                Some(b"334") => self.says = Says::Proof,
                Some(b"354") => self.says = Says::Content,
                _ => self.says = Says::Command,
            }
            self.reply.clear();
        }
    }

    /// The client says something while nobody watches.
    pub fn passed(&mut self, said: &[u8]) {
        self.line.clear();
        // Whoever begins to watch in the middle of a line is not shown its end.
        self.rest = (!said.ends_with(b"\n")).then_some(true);
    }

    /// What may be shown once the client has said this too.
    pub fn said(&mut self, said: &[u8]) -> Vec<u8> {
        let mut shown = Vec::with_capacity(said.len());
        for piece in said.split_inclusive(|octet| *octet == b'\n') {
            self.line.extend_from_slice(piece);
            let is_whole = piece.ends_with(b"\n");
            if is_whole || self.line.len() >= LINE_MAX {
                let line = std::mem::take(&mut self.line);
                self.tell(&line, is_whole, &mut shown);
            }
        }
        shown
    }

    fn tell(&mut self, line: &[u8], is_whole: bool, shown: &mut Vec<u8>) {
        let hides =
            self.rest.unwrap_or_else(|| self.says == Says::Proof || (self.says == Says::Command && is_auth(line)));
        match (hides, self.rest, self.says) {
            (false, ..) => shown.extend_from_slice(line),
            (true, None, Says::Command) => hide_behind_mechanism(line, shown),
            (true, ..) => shown.extend_from_slice(HIDDEN),
        }
        if self.rest.is_none() && is_whole {
            match self.says {
                Says::Command if hides => self.says = Says::Proof,
                Says::Content if line.trim_ascii_end() == b"." => self.says = Says::Command,
                _ => {}
            }
        }
        self.rest = (!is_whole).then_some(hides);
    }
}

/// The words of a line, as the server reads them.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn is_auth(line: &[u8]) -> bool {
    words(line).next().is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH"))
}

fn hide_behind_mechanism(line: &[u8], shown: &mut Vec<u8>) {
    if words(line).count() <= 2 {
        return shown.extend_from_slice(line);
    }
    for word in words(line).take(2) {
        shown.extend_from_slice(word);
        shown.push(b' ');
    }
    shown.extend_from_slice(HIDDEN);
}

const HIDDEN: &[u8] = b"(hidden)\r\n";
/// Octets of a reply's line that are looked at.
const REPLY_OCTETS: usize = 4;
/// Octets of a line that are waited for: more than AUTH may have (RFC 4954 section 4.3).
const LINE_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(secret: &mut Secret, said: &str) -> String {
        String::from_utf8_lossy(&secret.said(said.as_bytes())).into_owned()
    }

    #[test]
    fn commands_are_shown_and_proofs_are_not() {
        for (said, expected) in [
            ("EHLO auth \r\n", "EHLO auth \r\n"),
            ("AUTH PLAIN AGEAc2VjcmV0\r\n", "AUTH PLAIN (hidden)\r\n"),
            ("auth  plain\tAGEA \r\n", "auth plain (hidden)\r\n"),
            ("AUTH\tPLAIN AGEA x\r\n", "AUTH PLAIN (hidden)\r\n"),
            ("AUTH LOGIN\r\n", "AUTH LOGIN\r\n"),
            ("AUTH LOGIN dXNlcg==\r\ncGFzcw==\r\n", "AUTH LOGIN (hidden)\r\n(hidden)\r\n"),
            ("RSET\r\nAUTH PLAIN\r\nAGEA\r\n", "RSET\r\nAUTH PLAIN\r\n(hidden)\r\n"),
        ] {
            let mut secret = Secret::default();
            assert_eq!(shown(&mut secret, said), expected);
            // In pieces of any size it is the same.
            for size in 1..said.len() {
                let mut secret = Secret::default();
                let pieces = said.as_bytes().chunks(size).map(|piece| secret.said(piece)).collect::<Vec<_>>().concat();
                assert_eq!(String::from_utf8_lossy(&pieces), expected, "{size}");
            }
        }
    }

    #[test]
    fn an_exchange_is_hidden_to_the_servers_last_word() {
        let mut secret = Secret::default();
        assert_eq!(shown(&mut secret, "EHLO x\r\nAUTH PLAIN AG"), "EHLO x\r\n");
        secret.replied(b"250-x\r\n250 AUTH PLAIN\r\n");
        assert_eq!(shown(&mut secret, "EA\r\n"), "AUTH PLAIN (hidden)\r\n");
        for reply in [&b"33"[..], b"4 VX", b"Nlcg==\r\n"] {
            secret.replied(reply);
        }
        assert_eq!(shown(&mut secret, "dXNlcg==\r\ncGFzcw==\r\n"), "(hidden)\r\n(hidden)\r\n");
        secret.replied(b"235 welcome\r\n");
        assert_eq!(shown(&mut secret, "NOOP\r\n"), "NOOP\r\n");
    }

    #[test]
    fn a_message_is_shown_as_it_is() {
        let mut secret = Secret::default();
        assert_eq!(shown(&mut secret, "DATA\r\n"), "DATA\r\n");
        secret.replied(b"250 ok\r\n250 ok\r\n354 go\r\n");
        assert_eq!(shown(&mut secret, "auth x y\r\n..\r\n"), "auth x y\r\n..\r\n");
        let long = "x".repeat(LINE_MAX);
        assert_eq!(shown(&mut secret, &long), long, "a line without an end is not waited for");
        assert_eq!(shown(&mut secret, "x\r\n.\r\nAUTH PLAIN AGEA\r\n"), "x\r\n.\r\nAUTH PLAIN (hidden)\r\n");
    }

    #[test]
    fn who_comes_late_sees_no_half_a_proof() {
        let mut secret = Secret::default();
        secret.passed(b"AUTH PLAIN AGEA");
        assert_eq!(shown(&mut secret, "c2VjcmV0\r\nNOOP\r\n"), "(hidden)\r\nNOOP\r\n");
        secret.replied(b"334 \r\n");
        secret.passed(b"NOOP\r\n");
        assert_eq!(shown(&mut secret, "AGEA\r\n"), "(hidden)\r\n");
        let mut secret = Secret::default();
        let long = format!("AUTH PLAIN {}", "x".repeat(LINE_MAX));
        assert_eq!(shown(&mut secret, &long), "AUTH PLAIN (hidden)\r\n");
        assert_eq!(shown(&mut secret, "secret\r\nNOOP\r\n"), "(hidden)\r\nNOOP\r\n");
    }
}
