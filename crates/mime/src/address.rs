//! Address headers: `From`, `To` and their kin, parsed into mailboxes and groups (RFC 5322 section 3.4).
//!
//! In: the raw value of an address header. Out: [`AddressList`]. Tolerated, because mail has them:
//! obsolete routes, white space around dots and `@`, empty list elements, unquoted dots and `@` in
//! display names, UTF-8 (RFC 6532), a group left open at the end.
//! Can fail: [`AddressError`]; the header getter then has nothing to give.
//! Deliberately does not check that a domain exists or could exist, and does not parse SMTP paths.

use crate::decode::decode_unstructured;
use crate::lexer::{Lexer, Token};

/// Why a header value is not an address list. Offsets count bytes of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("address header: unexpected {found:?} at byte {offset}")]
    Unexpected { found: char, offset: usize },
    #[error("address header: {what} that begins at byte {offset} is not closed")]
    Unclosed { what: &'static str, offset: usize },
    #[error("address header: comments nest deeper than {max}")]
    CommentTooDeep { max: usize },
    #[error("address header: {text:?} is not an address, expected user@domain")]
    NotAnAddress { text: String },
    #[error("address header: group {name:?} inside a group")]
    NestedGroup { name: String },
    #[error("address header: more than {max} addresses")]
    TooMany { max: usize },
    #[error("address header holds {found} entries, expected exactly one mailbox")]
    NotSingle { found: usize },
}

/// One mailbox of an address header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// The display name, decoded; `None` when there is none.
    pub name: Option<String>,
    /// The local part, quoting removed.
    pub user: String,
    /// The domain as written, or an address literal with its brackets.
    pub domain: String,
}

impl Mailbox {
    /// `user@domain`, the local part quoted when it has to be.
    pub fn email(&self) -> String {
        let dot_atom = !self.user.is_empty()
            && self.user.split('.').all(|a| !a.is_empty())
            && !self.user.contains(|c: char| c <= ' ' || c == '\x7f' || "()<>[]:;@,\"\\".contains(c));
        if dot_atom {
            return format!("{}@{}", self.user, self.domain);
        }
        let quoted = self.user.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{quoted}\"@{}", self.domain)
    }
}

/// One entry of an address list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Mailbox(Mailbox),
    /// `name: a@b, c@d;`
    Group {
        name: String,
        members: Vec<Mailbox>,
    },
}

/// A parsed address header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressList {
    entries: Vec<Address>,
}

impl AddressList {
    /// Parses the raw value (folds and comments included) of an address header.
    ///
    /// # Errors
    /// The value is not an address list even with the tolerance described above, or it has more
    /// than [`ADDRESSES_MAX`] addresses.
    pub fn parse(value: &[u8]) -> Result<AddressList, AddressError> {
        let mut parser = Parser::default();
        let mut lexer = Lexer::new(value);
        while let Some(token) = lexer.next_token()? {
            parser.take(token)?;
        }
        parser.finish()
    }

    /// The entries, groups as groups.
    pub fn entries(&self) -> &[Address] {
        &self.entries
    }

    /// All mailboxes, those inside groups included.
    pub fn mailboxes(&self) -> impl Iterator<Item = &Mailbox> {
        self.entries.iter().flat_map(|entry| match entry {
            Address::Mailbox(mailbox) => std::slice::from_ref(mailbox),
            Address::Group { members, .. } => members.as_slice(),
        })
    }

    /// The one mailbox of a header that is exactly that (KumoMTA's `AddressHeader` fields).
    ///
    /// # Errors
    /// [`AddressError::NotSingle`] when there is none, a group, or more than one.
    pub fn single(&self) -> Result<&Mailbox, AddressError> {
        match self.entries.as_slice() {
            [Address::Mailbox(mailbox)] => Ok(mailbox),
            entries => Err(AddressError::NotSingle { found: entries.len() }),
        }
    }
}

/// Collects tokens until a separator tells what they were.
#[derive(Default)]
struct Parser<'a> {
    list: AddressList,
    group: Option<(String, Vec<Mailbox>)>,
    words: Vec<Token<'a>>,
    angle: Option<Vec<Token<'a>>>,
    angle_closed: bool,
    count: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: Token<'a>) -> Result<(), AddressError> {
        let in_angle = self.angle.is_some() && !self.angle_closed;
        match token {
            Token::Special(b'>') if in_angle => self.angle_closed = true,
            token if in_angle => self.angle.get_or_insert_default().push(token),
            Token::Special(b',') => self.end_mailbox()?,
            Token::Special(b';') => self.end_group()?,
            Token::Special(b'<') if self.angle.is_none() => self.angle = Some(Vec::new()),
            Token::Special(b':') if self.angle.is_none() => self.begin_group()?,
            Token::Special(b'<' | b'>' | b':') => return Err(not_an_address(&[token])),
            // text after the closing bracket: seen in the wild, carries nothing
            _ if self.angle_closed => {}
            token => self.words.push(token),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<AddressList, AddressError> {
        if self.angle.is_some() && !self.angle_closed {
            return Err(not_an_address(&self.angle.unwrap_or_default()));
        }
        if self.group.is_some() {
            self.end_group()?;
        } else {
            self.end_mailbox()?;
        }
        Ok(self.list)
    }

    fn begin_group(&mut self) -> Result<(), AddressError> {
        let name = phrase(&std::mem::take(&mut self.words));
        if self.group.is_some() {
            return Err(AddressError::NestedGroup { name });
        }
        self.count_one()?;
        self.group = Some((name, Vec::new()));
        Ok(())
    }

    fn end_group(&mut self) -> Result<(), AddressError> {
        self.end_mailbox()?;
        match self.group.take() {
            Some((name, members)) => self.list.entries.push(Address::Group { name, members }),
            None => return Err(not_an_address(&[Token::Special(b';')])),
        }
        Ok(())
    }

    fn end_mailbox(&mut self) -> Result<(), AddressError> {
        let words = std::mem::take(&mut self.words);
        let mailbox = match self.angle.take() {
            Some(spec) => {
                self.angle_closed = false;
                let name = phrase(&words);
                mailbox(without_route(&spec), Some(name).filter(|n| !n.is_empty()))?
            }
            None if words.is_empty() => return Ok(()),
            None => mailbox(&words, None)?,
        };
        self.count_one()?;
        match &mut self.group {
            Some((_, members)) => members.push(mailbox),
            None => self.list.entries.push(Address::Mailbox(mailbox)),
        }
        Ok(())
    }

    fn count_one(&mut self) -> Result<(), AddressError> {
        self.count += 1;
        if self.count > ADDRESSES_MAX {
            return Err(AddressError::TooMany { max: ADDRESSES_MAX });
        }
        Ok(())
    }
}

/// Drops an obsolete source route, `@a,@b:` (RFC 5322 section 4.4).
fn without_route<'t, 'a>(spec: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match spec.iter().position(|t| *t == Token::Special(b':')) {
        Some(colon) if spec.first() == Some(&Token::Special(b'@')) => &spec[colon + 1..],
        _ => spec,
    }
}

/// An addr-spec: words, `@`, words.
fn mailbox(spec: &[Token], name: Option<String>) -> Result<Mailbox, AddressError> {
    let bad = || not_an_address(spec);
    let at = spec.iter().position(|t| *t == Token::Special(b'@')).ok_or_else(bad)?;
    let user = joined(&spec[..at]).ok_or_else(bad)?;
    let domain = joined(&spec[at + 1..]).ok_or_else(bad)?;
    let quoted_domain = spec[at + 1..].iter().any(|t| matches!(t, Token::Quoted(_)));
    let literal_user = spec[..at].iter().any(|t| matches!(t, Token::Literal(_)));
    if domain.is_empty() || quoted_domain || literal_user {
        return Err(bad());
    }
    Ok(Mailbox { name, user, domain })
}

/// Words put together; `None` when two of them have no dot between them, or a special is among them.
fn joined(words: &[Token]) -> Option<String> {
    let mut out = Vec::new();
    for (number, word) in words.iter().enumerate() {
        let bytes = word_bytes(word)?;
        if number > 0 && out.last() != Some(&b'.') && bytes.first() != Some(&b'.') {
            return None;
        }
        out.extend_from_slice(bytes);
    }
    (!words.is_empty()).then(|| String::from_utf8_lossy(&out).into_owned())
}

/// A display name: atoms decoded together (encoded-words), quoted strings taken as they are.
fn phrase(words: &[Token]) -> String {
    let mut out = String::new();
    let mut atoms: Vec<u8> = Vec::new();
    for word in words {
        match word {
            Token::Quoted(text) => {
                push_word(&mut out, &decode_unstructured(&atoms));
                atoms.clear();
                push_word(&mut out, &String::from_utf8_lossy(text));
            }
            Token::Atom(bytes) => {
                if !atoms.is_empty() && !atoms.ends_with(b"@") {
                    atoms.push(b' ');
                }
                atoms.extend_from_slice(bytes);
            }
            Token::Literal(bytes) => atoms.extend_from_slice(bytes),
            Token::Special(special) => atoms.push(*special),
        }
    }
    push_word(&mut out, &decode_unstructured(&atoms));
    out
}

fn push_word(out: &mut String, word: &str) {
    if !out.is_empty() && !word.is_empty() {
        out.push(' ');
    }
    out.push_str(word);
}

fn word_bytes<'t>(token: &'t Token) -> Option<&'t [u8]> {
    match token {
        Token::Atom(bytes) => Some(bytes),
        Token::Quoted(bytes) | Token::Literal(bytes) => Some(bytes),
        Token::Special(_) => None,
    }
}

fn not_an_address(tokens: &[Token]) -> AddressError {
    let words = tokens.iter().map(|t| match t {
        Token::Special(special) => char::from(*special).to_string(),
        other => String::from_utf8_lossy(word_bytes(other).unwrap_or_default()).into_owned(),
    });
    let text: String = words.collect::<Vec<_>>().join(" ");
    AddressError::NotAnAddress { text: text.chars().take(ERROR_TEXT_CHARS_MAX).collect() }
}

/// Most addresses and groups in one header.
pub const ADDRESSES_MAX: usize = 10_000;

/// Characters of bad input quoted in an error.
const ERROR_TEXT_CHARS_MAX: usize = 80;

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
