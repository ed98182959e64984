//! SMTP commands, parsed once from a line into a type (RFC 5321 section 4.1, RFC 3030, 3207,
//! 3461, 4954, 6531).
//!
//! In: a command line without its end. Out: a [`Command`] or a [`CommandError`] that says which
//! part was wrong. More liberal than the RFC where deployed clients are sloppy and nothing can
//! be smuggled: a blank behind `FROM:` and `TO:`, addresses without brackets, lower case, blanks
//! at the end. Strict about octets: control characters and invalid UTF-8 are refused, since
//! names and parameters travel into headers and logs. Envelope parameters of extensions that are
//! not advertised (DSN) are parsed and kept, because KumoMTA accepts them.
//!
//! Whether a command is allowed now, and UTF-8 in addresses without SMTPUTF8, are questions of
//! `smtp-server`.

use crate::address::{AddressError, Mailbox, ReversePath, split_path};
use thiserror::Error;

mod params;
mod xclient;
pub use params::{BodyType, MailParams, Notify, OriginalRecipient, RcptParams, Ret};
pub use xclient::XClient;

/// One command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `EHLO domain`. Any text without blanks is taken: clients call themselves anything.
    Ehlo(String),
    /// `HELO domain`.
    Helo(String),
    /// `LHLO domain` (RFC 2033).
    Lhlo(String),
    /// `MAIL FROM:<path> params`.
    Mail {
        /// The reverse path.
        sender: ReversePath,
        /// What extensions add.
        params: MailParams,
    },
    /// `RCPT TO:<path> params`.
    Rcpt {
        /// The forward path.
        recipient: Mailbox,
        /// What extensions add.
        params: RcptParams,
    },
    /// `DATA`.
    Data,
    /// `BDAT octets [LAST]` (RFC 3030); the chunk follows the line directly.
    Bdat {
        /// Size of the chunk.
        octets: u64,
        /// True for the last chunk of the message.
        last: bool,
    },
    /// `RSET`.
    Rset,
    /// `NOOP`, its argument ignored.
    Noop,
    /// `QUIT`.
    Quit,
    /// `VRFY text`.
    Vrfy(String),
    /// `EXPN text`.
    Expn(String),
    /// `HELP`, its argument ignored.
    Help,
    /// `STARTTLS` (RFC 3207).
    StartTls,
    /// `AUTH mechanism [initial-response]` (RFC 4954).
    Auth {
        /// In upper case.
        mechanism: String,
        /// Base64 text, or `=` for an empty response.
        initial: Option<String>,
    },
    /// `XCLIENT attributes` (Postfix).
    XClient(XClient),
    /// A verb that is not in this list, in upper case.
    Unknown(String),
}

/// Why a line is not a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// Nothing on the line.
    #[error("empty command")]
    Empty,
    /// Invalid UTF-8 or a control character.
    #[error("command holds octets that are not text")]
    NotText,
    /// The arguments do not have the verb's form.
    #[error("expected {expected}")]
    Syntax {
        /// The form in the RFC's words.
        expected: &'static str,
    },
    /// The address of MAIL is wrong.
    #[error("sender: {0}")]
    Sender(AddressError),
    /// The address of RCPT is wrong.
    #[error("recipient: {0}")]
    Recipient(AddressError),
    /// A parameter no extension of ours defines.
    #[error("unknown parameter {0}")]
    UnknownParameter(String),
    /// A parameter given twice.
    #[error("parameter {0} given twice")]
    RepeatedParameter(String),
    /// A parameter whose value does not have the form of its RFC.
    #[error("parameter {name}: invalid value `{value}`, expected {expected}")]
    ParameterValue {
        /// Which, in upper case.
        name: &'static str,
        /// As given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// The size of BDAT is not a number, so nobody knows where the next command begins.
    #[error("invalid chunk size `{0}`, expected BDAT octets [LAST]")]
    ChunkSize(String),
}

impl Command {
    /// Parses a line without its CRLF.
    pub fn parse(line: &[u8]) -> Result<Command, CommandError> {
        let text = core::str::from_utf8(line).map_err(|_| CommandError::NotText)?;
        if text.bytes().any(|b| b < b' ' && b != b'\t' || b == 0x7f) {
            return Err(CommandError::NotText);
        }
        let text = text.trim_end_matches(BLANKS);
        let (verb, rest) = text.split_at(text.find(BLANKS).unwrap_or(text.len()));
        let rest = rest.trim_start_matches(BLANKS);
        let mut upper = [0; VERB_OCTETS_MAX];
        match upper_case(verb, &mut upper) {
            b"" => Err(CommandError::Empty),
            b"EHLO" => name(rest, "EHLO domain").map(Command::Ehlo),
            b"HELO" => name(rest, "HELO domain").map(Command::Helo),
            b"LHLO" => name(rest, "LHLO domain").map(Command::Lhlo),
            b"MAIL" => mail(rest),
            b"RCPT" => rcpt(rest),
            b"DATA" => bare(rest, Command::Data, "DATA"),
            b"BDAT" => bdat(rest),
            b"RSET" => bare(rest, Command::Rset, "RSET"),
            b"NOOP" => Ok(Command::Noop),
            b"QUIT" => bare(rest, Command::Quit, "QUIT"),
            b"VRFY" => Ok(Command::Vrfy(rest.to_owned())),
            b"EXPN" => Ok(Command::Expn(rest.to_owned())),
            b"HELP" => Ok(Command::Help),
            b"STARTTLS" => bare(rest, Command::StartTls, "STARTTLS"),
            b"AUTH" => auth(rest),
            b"XCLIENT" => XClient::parse(rest).map(Command::XClient),
            _ => Ok(Command::Unknown(verb.to_ascii_uppercase())),
        }
    }
}

fn upper_case<'a>(verb: &str, buffer: &'a mut [u8; VERB_OCTETS_MAX]) -> &'a [u8] {
    let Some(upper) = buffer.get_mut(..verb.len()) else {
        return b"?";
    };
    upper.copy_from_slice(verb.as_bytes());
    upper.make_ascii_uppercase();
    upper
}

fn bare(rest: &str, command: Command, expected: &'static str) -> Result<Command, CommandError> {
    if rest.is_empty() { Ok(command) } else { Err(CommandError::Syntax { expected }) }
}

fn name(rest: &str, expected: &'static str) -> Result<String, CommandError> {
    match rest.is_empty() || rest.contains(BLANKS) {
        true => Err(CommandError::Syntax { expected }),
        false => Ok(rest.to_owned()),
    }
}

fn mail(rest: &str) -> Result<Command, CommandError> {
    let path = after_keyword(rest, "FROM:", "MAIL FROM:<address>")?;
    let (address, params) = path_and_params(path).map_err(CommandError::Sender)?;
    let sender = ReversePath::parse(address).map_err(CommandError::Sender)?;
    Ok(Command::Mail { sender, params: MailParams::parse(params)? })
}

fn rcpt(rest: &str) -> Result<Command, CommandError> {
    let path = after_keyword(rest, "TO:", "RCPT TO:<address>")?;
    let (address, params) = path_and_params(path).map_err(CommandError::Recipient)?;
    let recipient = Mailbox::parse(address).map_err(CommandError::Recipient)?;
    Ok(Command::Rcpt { recipient, params: RcptParams::parse(params)? })
}

fn after_keyword<'a>(rest: &'a str, keyword: &str, expected: &'static str) -> Result<&'a str, CommandError> {
    match rest.get(..keyword.len()) {
        Some(start) if start.eq_ignore_ascii_case(keyword) => Ok(rest[keyword.len()..].trim_start_matches(BLANKS)),
        _ => Err(CommandError::Syntax { expected }),
    }
}

/// `<path> params`, or `path params` as sloppy clients write it.
fn path_and_params(text: &str) -> Result<(&str, &str), AddressError> {
    if !text.starts_with('<') {
        let end = text.find(BLANKS).unwrap_or(text.len());
        // Without brackets the empty text would be the null path: too easily a mistake.
        return if end == 0 { Err(AddressError::Brackets) } else { Ok(text.split_at(end)) };
    }
    let (address, params) = split_path(text)?;
    match params.is_empty() || params.starts_with(BLANKS) {
        true => Ok((address, params)),
        false => Err(AddressError::Brackets),
    }
}

fn bdat(rest: &str) -> Result<Command, CommandError> {
    let mut words = rest.split(BLANKS).filter(|word| !word.is_empty());
    let size = words.next().unwrap_or("");
    let octets = params::decimal(size).ok_or_else(|| CommandError::ChunkSize(size.to_owned()))?;
    let last = match words.next() {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("LAST") => true,
        Some(word) => return Err(CommandError::ChunkSize(format!("{size} {word}"))),
    };
    match words.next() {
        None => Ok(Command::Bdat { octets, last }),
        Some(word) => Err(CommandError::ChunkSize(format!("{size} LAST {word}"))),
    }
}

fn auth(rest: &str) -> Result<Command, CommandError> {
    let mut words = rest.split(BLANKS).filter(|word| !word.is_empty());
    match (words.next(), words.next(), words.next()) {
        (Some(mechanism), initial, None) => {
            Ok(Command::Auth { mechanism: mechanism.to_ascii_uppercase(), initial: initial.map(str::to_owned) })
        }
        _ => Err(CommandError::Syntax { expected: "AUTH mechanism [initial-response]" }),
    }
}

const BLANKS: [char; 2] = [' ', '\t'];
/// The longest verb, STARTTLS.
const VERB_OCTETS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, CommandError> {
        Command::parse(line.as_bytes())
    }

    fn mail_of(line: &str) -> (String, MailParams) {
        match parse(line) {
            Ok(Command::Mail { sender, params }) => (sender.as_str().to_owned(), params),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn verbs_take_their_arguments() {
        assert_eq!(parse("ehlo  Host.Example "), Ok(Command::Ehlo("Host.Example".into())));
        assert_eq!(parse("DATA"), Ok(Command::Data));
        assert_eq!(parse("NOOP anything at all"), Ok(Command::Noop));
        assert_eq!(parse("BDAT 100"), Ok(Command::Bdat { octets: 100, last: false }));
        assert_eq!(parse("bdat 0 last"), Ok(Command::Bdat { octets: 0, last: true }));
        assert_eq!(parse("XYZZY a"), Ok(Command::Unknown("XYZZY".into())));
        assert_eq!(parse("VERYLONGVERB"), Ok(Command::Unknown("VERYLONGVERB".into())));
        assert_eq!(
            parse("auth plain AGEAYg=="),
            Ok(Command::Auth { mechanism: "PLAIN".into(), initial: Some("AGEAYg==".into()) })
        );
    }

    #[test]
    fn arguments_where_none_belong_are_refused() {
        for line in ["DATA x", "RSET x", "QUIT x", "STARTTLS x", "EHLO", "HELO", "EHLO a b", "AUTH", "AUTH a b c"] {
            assert!(matches!(parse(line), Err(CommandError::Syntax { .. })), "{line}");
        }
    }

    #[test]
    fn sloppy_paths_are_understood() {
        for line in
            ["MAIL FROM:<a@b>", "mail from: <a@b>", "MAIL FROM:a@b", "MAIL FROM: a@b ", "MAIL  FROM:<@x,@y:a@b>"]
        {
            assert_eq!(mail_of(line).0, "a@b", "{line}");
        }
        assert_eq!(mail_of("MAIL FROM:<>").0, "");
        assert_eq!(mail_of("MAIL FROM:<\"a > b\"@c>").0, "\"a > b\"@c");
        assert_eq!(mail_of("MAIL FROM:a@b SIZE=5").1.size, Some(5));
    }

    #[test]
    fn wrong_paths_say_which_part_is_wrong() {
        for line in ["MAIL", "MAIL <a@b>", "MAIL FROM <a@b>", "RCPT FROM:<a@b>", "RCPT TO"] {
            assert!(matches!(parse(line), Err(CommandError::Syntax { .. })), "{line}");
        }
        for line in ["MAIL FROM:", "MAIL FROM:<a@b", "MAIL FROM:<a@b>SIZE=1", "MAIL FROM:<a b@c>", "MAIL FROM:<a>"] {
            assert!(matches!(parse(line), Err(CommandError::Sender(_))), "{line}");
        }
        for line in ["RCPT TO:<>", "RCPT TO:", "RCPT TO:<a@b> x>", "RCPT TO:<a@-b>", "RCPT TO:<a@b><c@d>"] {
            let error = parse(line);
            let right = matches!(error, Err(CommandError::Recipient(_) | CommandError::UnknownParameter(_)));
            assert!(right, "{line}: {error:?}");
        }
        assert!(matches!(parse("RCPT TO:<postmaster>"), Ok(Command::Rcpt { .. })));
    }

    #[test]
    fn chunk_sizes_are_plain_numbers() {
        for size in ["", "abc", "-1", "+1", "18446744073709551616", "1 LATEST", "1 LAST x", "0x10", "1.0"] {
            let error = parse(&format!("BDAT {size}"));
            assert!(matches!(error, Err(CommandError::ChunkSize(_))), "{size}: {error:?}");
        }
        let largest = Command::Bdat { octets: u64::MAX, last: false };
        assert_eq!(parse("BDAT 18446744073709551615"), Ok(largest));
    }

    #[test]
    fn octets_that_are_not_text_are_refused() {
        for line in [&b"EHLO a\0b"[..], b"EHLO a\rb", b"MAIL FROM:<\xff@b>", b"NOOP \x7f", b"NOOP \x1b[2J"] {
            assert_eq!(Command::parse(line), Err(CommandError::NotText));
        }
        assert_eq!(Command::parse(b""), Err(CommandError::Empty));
        assert_eq!(Command::parse(b"  NOOP"), Err(CommandError::Empty));
    }
}
