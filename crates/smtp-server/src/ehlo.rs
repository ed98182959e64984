//! EHLO and HELO: what the client calls itself, and what we offer (RFC 5321 section 4.1.1.1).
//!
//! Either ends an open transaction. LHLO is LMTP's and refused like any unknown verb.

use crate::question::Question;
use crate::reject::Concerned;
use crate::session::{Awaiting, Session};
use crate::texts;
use smtp_wire::command::XClient;

/// An EHLO or HELO being considered.
#[derive(Debug)]
pub(crate) struct Hello {
    pub(crate) domain: String,
    /// False for HELO.
    pub(crate) extended: bool,
    pub(crate) extensions: Vec<String>,
}

/// Longest name taken from a client; it goes into headers and logs (RFC 5321 section 4.5.3.1.2).
const HELLO_OCTETS_MAX: usize = 255;

impl Session {
    pub(crate) fn ehlo(&mut self, domain: String, extended: bool) {
        if !self.count_junk() {
            return;
        }
        if domain.len() > HELLO_OCTETS_MAX {
            return self.refuse(texts::reply(texts::HELLO_TOO_LONG), Concerned::nobody());
        }
        let extensions = if extended { self.extensions() } else { Vec::new() };
        let hello = Hello { domain, extended, extensions };
        if !self.settings.interest.ehlo {
            return self.hello_accepted(hello);
        }
        let question = Question::Ehlo { domain: hello.domain.clone(), extended, extensions: hello.extensions.clone() };
        self.ask(question, Awaiting::Ehlo(hello));
    }

    pub(crate) fn hello_accepted(&mut self, hello: Hello) {
        self.transaction = None;
        if hello.extended {
            self.write_extensions(&hello);
        } else {
            self.say(250, &format!("Hello {}!", hello.domain));
        }
        self.hello = Some(hello.domain);
    }

    /// What we offer now, in KumoMTA's order, ours behind.
    fn extensions(&self) -> Vec<String> {
        let mut list: Vec<String> =
            ["PIPELINING", "ENHANCEDSTATUSCODES", "8BITMIME", "SMTPUTF8"].map(str::to_owned).into();
        match self.tls {
            None if self.settings.tls_available => list.push("STARTTLS".to_owned()),
            None => {}
            Some(_) => list.push("AUTH PLAIN LOGIN".to_owned()),
        }
        if self.settings.allow_xclient {
            list.push(format!("XCLIENT {}", XClient::ATTRIBUTES));
        }
        list.push(format!("SIZE {}", self.settings.max_message_size));
        list.push("CHUNKING".to_owned());
        list.push("DSN".to_owned());
        if self.tls.is_some() {
            list.push("REQUIRETLS".to_owned());
        }
        list
    }

    fn write_extensions(&mut self, hello: &Hello) {
        let first = format!("{} Aloha {}", self.settings.hostname, hello.domain);
        let count = hello.extensions.len();
        let lines = core::iter::once(first.as_str()).chain(hello.extensions.iter().map(String::as_str));
        for (i, line) in lines.enumerate() {
            self.output.extend_from_slice(if i < count { b"250-" } else { b"250 " });
            // Policy wrote the list: a line end in it must not become a reply of its own.
            self.output.extend(line.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
            self.output.extend_from_slice(b"\r\n");
        }
        self.said();
    }
}
