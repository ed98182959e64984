//! A request compiled once, and its messages made one by one.

use crate::content::Source;
use crate::headers::mailbox;
use crate::parts::Parts;
use crate::request::{Content, Injection, InjectionError, Recipient};
use bytes::Bytes;
use clock::WallTime;
use message::{Draft, Envelope, MessageId, Meta, TlsDemand};
use mime::ValueForm;
use mimepart::MimePart;
use serde_json::{Map, Value};
use smtp_wire::{Mailbox, ReversePath};
use template::Templates;
use thiserror::Error;

/// Makes the messages of one request.
pub struct Generator<'a> {
    injection: &'a Injection,
    sender: ReversePath,
    templates: Templates<'a>,
    form: Form<'a>,
    /// The message without To, when it is the same for all.
    same: Option<Bytes>,
    /// To is made of the recipient.
    adds_to: bool,
    seed: u64,
}

enum Form<'a> {
    Whole(Source<'a>),
    Parts(Box<Parts<'a>>),
}

/// Why there is no message for one recipient.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{email}: {why}")]
pub struct RecipientError {
    /// As the request has it.
    pub email: String,
    /// What is wrong, shortened.
    pub why: String,
    /// It may not be wrong later.
    pub is_transient: bool,
}

impl RecipientError {
    /// `why`, which may hold what templates made, is cut at some hundred octets: there may be many of these.
    pub fn new(email: &str, why: &str, is_transient: bool) -> RecipientError {
        let cut = |text: &str, max: usize| match text.char_indices().find(|(at, _)| *at >= max) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        };
        RecipientError { email: cut(email, EMAIL_OCTETS_MAX), why: cut(why, WHY_OCTETS_MAX), is_transient }
    }
}

/// The longest address (RFC 5321 section 4.5.3.1), and some.
const EMAIL_OCTETS_MAX: usize = 512;
/// Enough to see what is wrong.
const WHY_OCTETS_MAX: usize = 512;

impl<'a> Generator<'a> {
    /// Compiles the templates and decodes the attachments; what is the same for all is made. Boundaries come from `seed`.
    ///
    /// # Errors
    /// The request cannot be carried out for anybody.
    pub fn new(injection: &'a Injection, seed: u64) -> Result<Generator<'a>, InjectionError> {
        if injection.idempotency_key.is_some() {
            return Err(InjectionError::at("/idempotency_key", "expected none: only requests over HTTP may have one"));
        }
        let wrong = |error| InjectionError::at("/envelope_sender", error);
        let sender = ReversePath::parse(&injection.envelope_sender).map_err(wrong)?;
        let dialect = injection.template_dialect;
        let mut templates = Templates::of_request(dialect);
        let form = match &injection.content {
            Content::Message(text) => {
                Form::Whole(Source::compile(&mut templates, dialect, ("message", "/content"), text)?)
            }
            Content::Structured(content) => Form::Parts(Box::new(Parts::compile(content, &mut templates, dialect)?)),
        };
        let (is_plain, adds_to) = match &form {
            Form::Whole(source) => (source.is_plain(), false),
            Form::Parts(parts) => (parts.are_plain(), !parts.say_to_whom()),
        };
        let mut generator = Generator { injection, sender, templates, form, same: None, adds_to, seed };
        if is_plain {
            let made = generator.content(&Value::Null, seed).map_err(|why| InjectionError::at("/content", why))?;
            generator.same = Some(made);
        }
        Ok(generator)
    }

    /// How many messages there are to be made.
    pub fn len(&self) -> usize {
        self.injection.recipients.len()
    }

    /// True when there is nobody to make a message for.
    pub fn is_empty(&self) -> bool {
        self.injection.recipients.is_empty()
    }

    /// The message for the recipient of that number, due at `now`; `meta` gets `extra`.
    ///
    /// # Errors
    /// There is none for this recipient.
    ///
    /// # Panics
    /// There are not so many recipients.
    pub fn draft(&self, number: usize, id: MessageId, meta: Meta, now: WallTime) -> Result<Draft, RecipientError> {
        let recipient = &self.injection.recipients[number];
        self.made(recipient, number, id, meta, now).map_err(|why| RecipientError::new(&recipient.email, &why, false))
    }

    fn made(
        &self,
        recipient: &Recipient,
        number: usize,
        id: MessageId,
        mut meta: Meta,
        now: WallTime,
    ) -> Result<Draft, String> {
        let address = Mailbox::parse(&recipient.email).map_err(|error| error.to_string())?;
        let to = mailbox(&recipient.email, recipient.name.as_deref())?;
        let content = match &self.same {
            Some(same) => same.clone(),
            None => self.content(&self.values(recipient, &to), self.seed.wrapping_add(number as u64))?,
        };
        if !recipient.metadata.is_empty() {
            meta.set("extra", Value::Object(recipient.metadata.clone()));
        }
        let envelope =
            Envelope { sender: self.sender.clone(), recipients: vec![address], dsn: None, tls: TlsDemand::Usual };
        let mut draft = Draft::new(id, envelope, meta, content.into(), now);
        if self.adds_to {
            let block = draft.edit_headers().0;
            block.prepend("To", to.as_bytes(), ValueForm::Raw).map_err(|error| error.to_string())?;
        }
        Ok(draft)
    }

    /// What templates see: what all share, the recipient, and what is the recipient's own, which wins.
    fn values(&self, recipient: &Recipient, to: &str) -> Value {
        let own = &recipient.substitutions;
        let mut values = Map::with_capacity(self.injection.substitutions.len() + own.len() + 3);
        values.extend(self.injection.substitutions.iter().map(|(name, value)| (name.clone(), value.clone())));
        values.insert("email".to_owned(), recipient.email.as_str().into());
        // One without a name has none: what is missing is empty, and null is not.
        values.extend(recipient.name.as_deref().map(|name| ("name".to_owned(), name.into())));
        values.insert("to_header".to_owned(), to.into());
        values.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
        Value::Object(values)
    }

    /// The message for these values, without To unless the request has it.
    fn content(&self, values: &Value, seed: u64) -> Result<Bytes, String> {
        let octets = match &self.form {
            Form::Parts(parts) => parts.message(&self.templates, values, seed)?,
            Form::Whole(source) => {
                let text = source.text(&self.templates, values)?.into_owned();
                let mut part = MimePart::parse(text).rebuild().map_err(|error| error.to_string())?;
                if part.headers().get_first_named("MIME-Version").is_none() {
                    part.headers_mut().prepend("MIME-Version", "1.0").map_err(|error| error.to_string())?;
                }
                part.to_bytes()
            }
        };
        Ok(octets.into())
    }
}
