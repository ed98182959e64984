//! How the messages of a queue leave.
//!
//! Owns [`QueueProtocol`], the `protocol` option of a queue: told apart by which key is present. In: a table or the word
//! of an internal form. Out: the variant and its options. Fails when none or several forms are given. Delivery
//! itself is the engine's.

use crate::duration::Duration;
use crate::mx_list::MxListEntry;
use crate::options::options;
use crate::shown_url::shown_url;
use core::fmt;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The protocol of a queue. KumoMTA's default is `smtp = {}`.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueProtocol {
    /// `smtp = {...}`: to the MX hosts of the domain, or to a list.
    Smtp(SmtpProtocol),
    /// `maildir_path = "..."`: into a Maildir.
    Maildir(MaildirProtocol),
    /// `custom_lua = {...}`: to a connection object of the policy.
    CustomLua(CustomLuaProtocol),
    /// `xfer = {...}`: to another node.
    Xfer(XferProtocol),
    /// Discard. Internal.
    Null,
    /// Deferred generation of HTTP injections. Internal.
    HttpInjectionGenerator,
    /// Deferred SMTP injection. Internal.
    DeferredSmtpInjection,
}

options! {
    /// `protocol.smtp`
    pub struct SmtpProtocol {
        /// Hosts tried in order instead of the MX records. Port precedence: source `remote_port`, then the entry's
        /// port, then the path's `smtp_port`.
        mx_list: Vec<MxListEntry> = Vec::new();
        /// Lets DANE apply to the hosts of `mx_list` although no DNSSEC-secure MX look-up named them.
        treat_mx_list_as_secure: bool = false;
    }
}

options! {
    /// `protocol` with `maildir_path`
    pub struct MaildirProtocol {
        /// Template of the directory; created if missing. Variables: meta, queue, campaign, tenant, domain,
        /// routing_domain, local_part, domain_part, email, sender_local_part, sender_domain_part, sender_email.
        maildir_path: String;
        /// Mode of directories made, e.g. `tonumber('775', 8)`.
        dir_mode: Option<u32> = None;
        /// Mode of files made.
        file_mode: Option<u32> = None;
    }
}

options! {
    /// `protocol.custom_lua`
    pub struct CustomLuaProtocol {
        /// Event `(domain, tenant, campaign)` that returns the connection object, once a session.
        constructor: String;
        /// Most messages a call: 1 calls `send`, more `send_batch`.
        batch_size: usize = 1, min 1;
        /// A batch goes once it has so many, or `max_batch_latency` is over; 1 waits for a full one.
        min_batch_size: usize = 1, min 1;
        /// How long to gather a batch.
        max_batch_latency: Duration = Duration::from_secs(0);
    }
}

options! {
    /// `protocol.xfer`
    pub struct XferProtocol check check_target {
        /// Base URL of the node that takes the messages.
        target: String;
    }
}

fn check_target(xfer: &XferProtocol) -> Result<(), String> {
    match ["http://", "https://"].iter().any(|scheme| xfer.target.starts_with(scheme)) {
        true => Ok(()),
        false => {
            let target = shown_url(&xfer.target);
            Err(format!("invalid target {target:?}: expected a URL beginning with http:// or https://"))
        }
    }
}

impl Default for QueueProtocol {
    fn default() -> Self {
        QueueProtocol::Smtp(SmtpProtocol::default())
    }
}

impl Serialize for QueueProtocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            QueueProtocol::Smtp(smtp) => one_key(serializer, "smtp", smtp),
            QueueProtocol::Maildir(maildir) => maildir.serialize(serializer),
            QueueProtocol::CustomLua(lua) => one_key(serializer, "custom_lua", lua),
            QueueProtocol::Xfer(xfer) => one_key(serializer, "xfer", xfer),
            QueueProtocol::Null => serializer.serialize_str(INTERNAL[0]),
            QueueProtocol::HttpInjectionGenerator => serializer.serialize_str(INTERNAL[1]),
            QueueProtocol::DeferredSmtpInjection => serializer.serialize_str(INTERNAL[2]),
        }
    }
}

fn one_key<S: Serializer, T: Serialize>(serializer: S, key: &str, value: &T) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(key, value)?;
    map.end()
}

impl<'de> Deserialize<'de> for QueueProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordOrTable)
    }
}

struct WordOrTable;

impl<'de> de::Visitor<'de> for WordOrTable {
    type Value = QueueProtocol;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<QueueProtocol, E> {
        match word {
            "Null" => Ok(QueueProtocol::Null),
            "HttpInjectionGenerator" => Ok(QueueProtocol::HttpInjectionGenerator),
            "DeferredSmtpInjection" => Ok(QueueProtocol::DeferredSmtpInjection),
            _ => Err(E::custom(format!("invalid protocol {word:?}: expected {EXPECTED}"))),
        }
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<QueueProtocol, A::Error> {
        let shape = Shape::deserialize(de::value::MapAccessDeserializer::new(map))?;
        shape.sort_out().map_err(de::Error::custom)
    }
}

options! {
    /// Every key a protocol table may have, not yet told apart.
    struct Shape {
        /// SMTP.
        smtp: Option<SmtpProtocol> = None;
        /// Maildir.
        maildir_path: Option<String> = None;
        /// Maildir directory mode.
        dir_mode: Option<u32> = None;
        /// Maildir file mode.
        file_mode: Option<u32> = None;
        /// Lua.
        custom_lua: Option<CustomLuaProtocol> = None;
        /// Transfer.
        xfer: Option<XferProtocol> = None;
    }
}

impl Shape {
    fn sort_out(self) -> Result<QueueProtocol, String> {
        if self.maildir_path.is_none() && (self.dir_mode.is_some() || self.file_mode.is_some()) {
            return Err("dir_mode and file_mode: expected only beside maildir_path".to_owned());
        }
        let Shape { smtp, maildir_path, dir_mode, file_mode, custom_lua, xfer } = self;
        match (smtp, maildir_path, custom_lua, xfer) {
            (Some(smtp), None, None, None) => Ok(QueueProtocol::Smtp(smtp)),
            (None, Some(path), None, None) if path.is_empty() => {
                Err("invalid maildir_path \"\": expected a directory".to_owned())
            }
            (None, Some(maildir_path), None, None) => {
                Ok(QueueProtocol::Maildir(MaildirProtocol { maildir_path, dir_mode, file_mode }))
            }
            (None, None, Some(lua), None) => Ok(QueueProtocol::CustomLua(lua)),
            (None, None, None, Some(xfer)) => Ok(QueueProtocol::Xfer(xfer)),
            _ => Err(format!("expected {EXPECTED}")),
        }
    }
}

const EXPECTED: &str = "exactly one of {smtp=...}, {maildir_path=...}, {custom_lua=...}, {xfer=...}";
/// The words of the internal forms.
const INTERNAL: [&str; 3] = ["Null", "HttpInjectionGenerator", "DeferredSmtpInjection"];
