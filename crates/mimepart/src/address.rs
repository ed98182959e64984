//! Mailboxes and groups as plain data, and how they are written in a header (RFC 5322 section 3.4).
//!
//! Reading is [`mime::AddressList`]; this room turns it into KumoMTA's shapes and back. Writing can fail: what is written
//! is read again and must be the same, so a name or address that would break the header is refused.

use crate::scan::quote;
use mime::{AddressList, encode_words};
use serde::{Deserialize, Serialize};

/// One mailbox: `{name=nil|string, address={local_part, domain}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mailbox {
    /// The display name, decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where mail goes.
    pub address: AddrSpec,
}

/// RFC 5322 section 3.4.1 `addr-spec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddrSpec {
    /// Before the at sign, quoting removed.
    pub local_part: String,
    /// Behind it; an address literal with its brackets.
    pub domain: String,
}

/// A named list: `{name, entries}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The name, decoded.
    pub name: String,
    /// Its members.
    pub entries: Vec<Mailbox>,
}

/// One entry of an address list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Address {
    /// A mailbox.
    Mailbox(Mailbox),
    /// A group.
    Group(Group),
}

/// Reads an address list.
pub(crate) fn read(raw: &[u8]) -> Result<Vec<Address>, String> {
    let list = AddressList::parse(raw).map_err(|error| error.to_string())?;
    Ok(list.entries().iter().map(shape).collect())
}

/// Reads a list that may hold no groups.
pub(crate) fn read_mailboxes(raw: &[u8]) -> Result<Vec<Mailbox>, String> {
    without_groups(read(raw)?)
}

/// The mailboxes of a list that holds no groups.
pub(crate) fn without_groups(list: Vec<Address>) -> Result<Vec<Mailbox>, String> {
    let mailboxes = list.into_iter().map(|entry| match entry {
        Address::Mailbox(mailbox) => Ok(mailbox),
        Address::Group(group) => Err(format!("group {:?}", group.name)),
    });
    mailboxes.collect()
}

/// Reads exactly one mailbox.
pub(crate) fn read_mailbox(raw: &[u8]) -> Result<Mailbox, String> {
    let mut all = read_mailboxes(raw)?;
    match all.pop() {
        Some(mailbox) if all.is_empty() => Ok(mailbox),
        Some(_) => Err(format!("{} mailboxes", all.len() + 1)),
        None => Err("no mailbox".to_owned()),
    }
}

/// The value of a field, folded between mailboxes.
pub(crate) fn write(list: &[Address]) -> Result<String, String> {
    let mut out = String::new();
    for entry in list {
        let text = match entry {
            Address::Mailbox(mailbox) => mailbox_text(mailbox),
            Address::Group(Group { name, entries }) => {
                let members: Vec<String> = entries.iter().map(mailbox_text).collect();
                format!("{}: {};", phrase(name), members.join(FOLDED_COMMA))
            }
        };
        if !out.is_empty() {
            out.push_str(FOLDED_COMMA);
        }
        out.push_str(&text);
    }
    match read(out.as_bytes()) {
        Ok(again) if again == trimmed(list) => Ok(out),
        Ok(_) => Err("it would not read as what was meant".to_owned()),
        Err(reason) => Err(reason),
    }
}

fn shape(entry: &mime::Address) -> Address {
    match entry {
        mime::Address::Mailbox(mailbox) => Address::Mailbox(mailbox_shape(mailbox)),
        mime::Address::Group { name, members } => {
            Address::Group(Group { name: name.clone(), entries: members.iter().map(mailbox_shape).collect() })
        }
    }
}

fn mailbox_shape(mailbox: &mime::Mailbox) -> Mailbox {
    let address = AddrSpec { local_part: mailbox.user.clone(), domain: mailbox.domain.clone() };
    Mailbox { name: mailbox.name.clone(), address }
}

fn mailbox_text(mailbox: &Mailbox) -> String {
    let AddrSpec { local_part, domain } = mailbox.address.clone();
    let email = mime::Mailbox { name: None, user: local_part, domain }.email();
    match mailbox.name.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
        None => email,
        Some(name) if name.len() + email.len() < NAME_AND_ADDRESS_MAX => format!("{} <{email}>", phrase(name)),
        Some(name) => format!("{}\r\n <{email}>", phrase(name)),
    }
}

/// A display name: words as they are, a quoted string, or encoded-words.
fn phrase(name: &str) -> String {
    let name = name.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_' | '\'' | '!' | '+' | '/');
    let needs_encoding = !name.is_ascii() || name.len() > QUOTED_NAME_MAX || name.contains("=?");
    if needs_encoding {
        return encode_words(name);
    }
    if !name.is_empty() && name.chars().all(is_plain) && !name.contains("  ") { name.to_owned() } else { quote(name) }
}

/// As written: names without blanks around them, and none when that leaves nothing.
fn trimmed(list: &[Address]) -> Vec<Address> {
    let mailbox = |m: &Mailbox| Mailbox {
        name: m.name.as_deref().map(|n| n.trim().to_owned()).filter(|n| !n.is_empty()),
        address: m.address.clone(),
    };
    let entry = |entry: &Address| match entry {
        Address::Mailbox(one) => Address::Mailbox(mailbox(one)),
        Address::Group(group) => Address::Group(Group {
            name: group.name.trim().to_owned(),
            entries: group.entries.iter().map(mailbox).collect(),
        }),
    };
    list.iter().map(entry).collect()
}

const FOLDED_COMMA: &str = ",\r\n ";

/// Longest name written as a quoted string, in octets; longer ones become encoded-words, which fold.
const QUOTED_NAME_MAX: usize = 60;

/// Name and address together on one line, in octets.
const NAME_AND_ADDRESS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(name: Option<&str>, local_part: &str, domain: &str) -> Mailbox {
        let address = AddrSpec { local_part: local_part.into(), domain: domain.into() };
        Mailbox { name: name.map(str::to_owned), address }
    }

    #[test]
    fn lists_are_written_and_read() {
        let cases = [
            (mailbox(None, "a", "b.example"), "a@b.example"),
            (mailbox(Some("Ann Other"), "a", "b"), "Ann Other <a@b>"),
            (mailbox(Some("Other, \"Ann\""), "a b", "[192.0.2.1]"), "\"Other, \\\"Ann\\\"\" <\"a b\"@[192.0.2.1]>"),
            (mailbox(Some("J\u{fc}rgen"), "j", "b"), "=?UTF-8?Q?J=C3=BCrgen?= <j@b>"),
            (mailbox(Some("=?x?="), "j", "b"), "=?UTF-8?Q?=3D=3Fx=3F=3D?= <j@b>"),
        ];
        for (shape, text) in cases {
            let list = [Address::Mailbox(shape)];
            assert_eq!(write(&list).as_deref(), Ok(text));
            assert_eq!(read(text.as_bytes()).as_deref(), Ok(list.as_slice()));
        }
        let group = Address::Group(Group {
            name: "All".into(),
            entries: vec![mailbox(None, "a", "b"), mailbox(None, "c", "d")],
        });
        assert_eq!(
            write(&[group, Address::Mailbox(mailbox(None, "e", "f"))]).as_deref(),
            Ok("All: a@b,\r\n c@d;,\r\n e@f")
        );
        assert_eq!(write(&[]).as_deref(), Ok(""));
    }

    #[test]
    fn what_would_break_the_header_is_refused() {
        for bad in [
            mailbox(Some("a\r\nBcc: x"), "a", "b"),
            mailbox(None, "a", ""),
            mailbox(None, "", ""),
            mailbox(None, "a", "b, c@d"),
            mailbox(None, "a\r\nb", "c"),
            mailbox(None, "a", "b>"),
        ] {
            assert!(write(&[Address::Mailbox(bad.clone())]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_mailbox_is_one() {
        assert_eq!(read_mailbox(b"a@b"), Ok(mailbox(None, "a", "b")));
        assert_eq!(read_mailbox(b""), Err("no mailbox".into()));
        assert_eq!(read_mailbox(b"a@b, c@d"), Err("2 mailboxes".into()));
        assert_eq!(read_mailboxes(b"a@b, g: c@d;"), Err("group \"g\"".into()));
    }
}
