//! What a listener's sessions shall do: names, limits, timeouts.
//!
//! The driver resolves `peer`, `via` and dynamic parameters into one [`Settings`] before it makes
//! a session; a session never sees them change. Defaults are KumoMTA's where it has the option.

use crate::texts;
use clock::Duration;
use core::net::IpAddr;
use smtp_wire::Reply;
use smtp_wire::data::InvalidLineEndings;

/// Options of a session. Sizes are octets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our name in the banner and in replies. Default `localhost`; the driver knows better.
    pub hostname: String,
    /// Banner text behind the name. Default `KumoMTA`.
    pub banner: String,
    /// Which questions policy wants to be asked.
    pub interest: Interest,
    /// Largest content accepted, advertised as SIZE. Default 20 MiB.
    pub max_message_size: usize,
    /// Recipients of one transaction. Default 1024.
    pub max_recipients_per_message: usize,
    /// Recipients accepted over the whole connection; KumoMTA's name says messages, it counts
    /// recipients. Default 10 000.
    pub max_messages_per_connection: usize,
    /// Longest content line, its CRLF not counted. Default 998 (RFC 5322 section 2.1.1).
    pub line_length_hard_limit: usize,
    /// Bare CR and LF in content. Default Deny.
    pub invalid_line_endings: InvalidLineEndings,
    /// Longest wait for the next command or the next octet of content. Default 1 minute.
    pub client_timeout: Duration,
    /// From the end of the content to taking responsibility; the driver enforces it through
    /// [`crate::Transaction::processing_deadline`]. Default 5 minutes.
    pub data_processing_timeout: Duration,
    /// From MAIL to the end of the content. Default 1 hour.
    pub transaction_timeout: Duration,
    /// Slowest content tolerated, averaged over one DATA or one chunk; 0 tolerates anything.
    /// Default 500 octets a second (Postfix's figure).
    pub data_rate_octets_per_second_min: u64,
    /// Time before the rate is judged. Default 1 minute.
    pub data_rate_grace: Duration,
    /// Offer STARTTLS. Default true.
    pub tls_available: bool,
    /// Let the client say for whom it speaks (XCLIENT). Default false.
    pub allow_xclient: bool,
    /// Keep apart what is said, reply by reply, for a driver that changes it ([`crate::Session::take_said`]). Default false.
    pub replies_apart: bool,
    /// Refuse MAIL before EHLO or HELO. Default false (KumoMTA behaviour).
    pub hello_required: bool,
    /// Refuse clients that talk before the banner. Default true.
    pub refuse_early_talk: bool,
    /// Commands that move no mail (errors, RSET, NOOP, EHLO, VRFY and the like) between two
    /// accepted messages; one more is answered 421. Default 100.
    pub junk_commands_max: u32,
    /// Failed AUTH attempts, the last of which closes the connection. Default 5.
    pub auth_failures_max: u32,
}

/// Which questions are asked; the others are answered as if policy had no objection, without a
/// round trip. [`crate::Question::Data`] is always asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Before the banner.
    pub connection_accepted: bool,
    /// EHLO and HELO.
    pub ehlo: bool,
    /// AUTH; without it every attempt fails.
    pub auth: bool,
    /// MAIL.
    pub mail_from: bool,
    /// RCPT. Clear it only when this peer may relay to anywhere *and* policy has no handler:
    /// unasked, every recipient is accepted.
    pub rcpt_to: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            hostname: "localhost".to_owned(),
            banner: "KumoMTA".to_owned(),
            interest: Interest::default(),
            max_message_size: 20 * 1024 * 1024,
            max_recipients_per_message: 1024,
            max_messages_per_connection: 10_000,
            line_length_hard_limit: 998,
            invalid_line_endings: InvalidLineEndings::Deny,
            client_timeout: Duration::from_secs(60),
            data_processing_timeout: Duration::from_secs(300),
            transaction_timeout: Duration::from_secs(3600),
            data_rate_octets_per_second_min: 500,
            data_rate_grace: Duration::from_secs(60),
            tls_available: true,
            allow_xclient: false,
            replies_apart: false,
            hello_required: false,
            refuse_early_talk: true,
            junk_commands_max: 100,
            auth_failures_max: 5,
        }
    }
}

impl Default for Interest {
    fn default() -> Interest {
        Interest { connection_accepted: true, ehlo: true, auth: true, mail_from: true, rcpt_to: true }
    }
}

impl Settings {
    /// What a policy error is answered with, the connection being closed (KumoMTA behaviour).
    pub fn technical_difficulties(&self) -> Reply {
        Reply::enhanced(421, texts::POLICY_ERROR, format!("{} technical difficulties", self.hostname))
    }

    /// What a connection over `max_connections` gets instead of a banner (KumoMTA behaviour).
    pub fn too_many_sessions(&self) -> Reply {
        let text = format!("{} too many concurrent sessions. Try later", self.hostname);
        Reply::enhanced(421, texts::NOT_NOW, text)
    }

    /// What RCPT is answered when nothing permits relaying (KumoMTA behaviour).
    pub fn relaying_not_permitted(peer: IpAddr) -> Reply {
        Reply::new(550, &format!("5.7.1 relaying not permitted for {peer}"))
    }
}
