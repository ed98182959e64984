//! The request, as clients write it; unknown fields are refused on every level.

use core::fmt;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use template::Dialect;
use thiserror::Error;

/// One text for many recipients.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Injection {
    /// Sender of the envelope; empty for the null sender.
    pub envelope_sender: String,
    /// Each gets a message.
    pub recipients: Vec<Recipient>,
    /// What they get.
    pub content: Content,
    /// Values for all templates.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub substitutions: Map<String, Value>,
    /// In memory is enough: a crash may lose what was answered with success.
    #[serde(default)]
    pub deferred_spool: bool,
    /// The request is queued as it is, and its messages are made later.
    #[serde(default)]
    pub deferred_generation: bool,
    /// Headers that say where it came from.
    #[serde(default)]
    pub trace_headers: InjectionTrace,
    /// The language of the templates.
    #[serde(default)]
    pub template_dialect: Dialect,
    /// Sent again with the same, it is carried out once; only over HTTP, where it is taken out before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Who gets a message, and what is particular to it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipient {
    /// The address.
    pub email: String,
    /// Display name, for To and for templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Values for the templates of this message; they win over all others.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub substitutions: Map<String, Value>,
    /// Becomes `extra` of the message's metadata.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// What is sent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Content {
    /// A whole message (RFC 5322), a template itself.
    Message(String),
    /// Texts and attachments.
    Structured(Box<StructuredContent>),
}

/// A message by its parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StructuredContent {
    /// text/plain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_body: Option<String>,
    /// text/html.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html_body: Option<String>,
    /// text/x-amp-html.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amp_html_body: Option<String>,
    /// Not templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Header fields, in order of their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// From.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<NamedAddress>,
    /// Subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Reply-To.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<NamedAddress>,
}

/// A mailbox with or without a display name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamedAddress {
    /// The address.
    pub email: String,
    /// The name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A file that goes with the message.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// Text, or base64 of anything.
    pub data: String,
    /// Its media type.
    pub content_type: String,
    /// `data` is base64.
    #[serde(default)]
    pub base64: bool,
    /// What HTML refers to as `cid:`; what has one is shown inline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_id: Option<String>,
    /// The name to be saved under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

/// As a listener's `trace_headers`, but that Received is to be asked for (KumoMTA behaviour).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InjectionTrace {
    /// Prepend a Received header.
    pub received_header: bool,
    /// Prepend the supplemental header.
    pub supplemental_header: bool,
    /// Its name.
    pub header_name: String,
    /// Metadata to add to its content.
    pub include_meta_names: Vec<String>,
}

/// Why nothing can be made of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{pointer}: {why}")]
pub struct InjectionError {
    /// Where in it (RFC 6901).
    pub pointer: String,
    /// What is wrong there, and what was expected.
    pub why: String,
}

impl InjectionError {
    pub(crate) fn at(pointer: impl Into<String>, why: impl fmt::Display) -> InjectionError {
        InjectionError { pointer: pointer.into(), why: why.to_string() }
    }
}

impl Default for InjectionTrace {
    fn default() -> InjectionTrace {
        InjectionTrace {
            received_header: false,
            supplemental_header: true,
            header_name: "X-KumoRef".to_owned(),
            include_meta_names: Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Content;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or an object with text_body, html_body or both")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Message(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Message(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Content, A::Error> {
                let structured = StructuredContent::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Content::Structured(Box::new(structured)))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
