//! Structured content: its sources compiled, and a message built of them.

use crate::content::Source;
use crate::headers::{mailbox, prepend};
use crate::request::{Attachment, InjectionError, NamedAddress, StructuredContent};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mimepart::{AttachmentOptions, Builder, MimePart};
use serde_json::Value;
use template::{Dialect, Templates};

/// What is built for each recipient, or once for all.
pub(crate) struct Parts<'a> {
    text: Option<Source<'a>>,
    html: Option<Source<'a>>,
    amp_html: Option<Source<'a>>,
    attachments: Vec<MimePart>,
    from: Option<Named<'a>>,
    reply_to: Option<Named<'a>>,
    subject: Option<Source<'a>>,
    headers: Vec<(&'a str, Source<'a>)>,
}

/// A mailbox made by templates.
struct Named<'a> {
    email: Source<'a>,
    name: Option<Source<'a>>,
}

/// Where sources are compiled. Names of templates have blanks where they are no names of headers.
struct Sources<'t, 'a> {
    templates: &'t mut Templates<'a>,
    dialect: Dialect,
}

impl<'a> Sources<'_, 'a> {
    fn one(&mut self, name: &'a str, pointer: &str, text: &'a str) -> Result<Source<'a>, InjectionError> {
        Source::compile(self.templates, self.dialect, (name, pointer), text)
    }

    fn optional(
        &mut self,
        name: &'a str,
        pointer: &str,
        text: &'a Option<String>,
    ) -> Result<Option<Source<'a>>, InjectionError> {
        text.as_deref().map(|text| self.one(name, pointer, text)).transpose()
    }

    fn named(
        &mut self,
        [email, name]: [&'a str; 2],
        pointer: &str,
        address: &'a Option<NamedAddress>,
    ) -> Result<Option<Named<'a>>, InjectionError> {
        let Some(address) = address else { return Ok(None) };
        let email = self.one(email, &format!("{pointer}/email"), &address.email)?;
        Ok(Some(Named { email, name: self.optional(name, &format!("{pointer}/name"), &address.name)? }))
    }
}

impl<'a> Parts<'a> {
    /// Compiles what there is.
    pub fn compile(
        content: &'a StructuredContent,
        templates: &mut Templates<'a>,
        dialect: Dialect,
    ) -> Result<Parts<'a>, InjectionError> {
        if content.text_body.is_none() && content.html_body.is_none() {
            let why = "it has neither text_body nor html_body: expected at least one of text_body, html_body";
            return Err(InjectionError::at("/content", why));
        }
        let mut sources = Sources { templates, dialect };
        let text = sources.optional("text body", "/content/text_body", &content.text_body)?;
        let html = sources.optional("HTML body.html", "/content/html_body", &content.html_body)?;
        let amp_html = sources.optional("AMP body.html", "/content/amp_html_body", &content.amp_html_body)?;
        let subject = sources.optional("the subject", "/content/subject", &content.subject)?;
        let from = sources.named(["from email", "from name"], "/content/from", &content.from)?;
        let reply_to = sources.named(["reply_to email", "reply_to name"], "/content/reply_to", &content.reply_to)?;
        if content.headers.len() > HEADERS_MAX {
            let why = format!("{} headers: expected at most {HEADERS_MAX}", content.headers.len());
            return Err(InjectionError::at("/content/headers", why));
        }
        let mut headers = Vec::with_capacity(content.headers.len());
        for (name, value) in &content.headers {
            let pointer = format!("/content/headers/{}", escaped(name));
            check_name(name).map_err(|why| InjectionError::at(&*pointer, why))?;
            headers.push((name.as_str(), sources.one(name, &pointer, value)?));
        }
        let overwritten = |name: &str| {
            (from.is_some() && name == "From")
                || (subject.is_some() && name == "Subject")
                || (reply_to.is_some() && name == "Reply-To")
        };
        headers.retain(|(name, _)| !overwritten(name));
        let attachments = content.attachments.iter().enumerate().map(|(at, attachment)| attached(at, attachment));
        let attachments = attachments.collect::<Result<_, _>>()?;
        Ok(Parts { text, html, amp_html, attachments, from, reply_to, subject, headers })
    }

    /// True when values change nothing.
    pub fn are_plain(&self) -> bool {
        let named = [&self.from, &self.reply_to].into_iter().flatten();
        let named = named.flat_map(|named| [Some(named.email), named.name]).flatten();
        let texts = [self.text, self.html, self.amp_html, self.subject].into_iter().flatten();
        texts.chain(named).chain(self.headers.iter().map(|(_, source)| *source)).all(Source::is_plain)
    }

    /// True when the request says itself whom it is to.
    pub fn say_to_whom(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("to"))
    }

    /// The message for these values, without To unless the request has it.
    pub fn message(&self, templates: &Templates<'_>, values: &Value, seed: u64) -> Result<Vec<u8>, String> {
        let text = |source: Source<'a>| source.text(templates, values);
        let mut builder = Builder::new();
        if let Some(source) = self.text {
            builder.text_plain(&text(source)?);
        }
        if let Some(source) = self.html {
            builder.text_html(&text(source)?);
        }
        if let Some(source) = self.amp_html {
            builder.text_amp_html(&text(source)?);
        }
        self.attachments.iter().for_each(|part| builder.attach_part(part.clone()));
        let mut root = builder.build_undated(seed).map_err(|error| error.to_string())?;
        let headers = root.headers_mut();
        for (name, source) in self.headers.iter().rev() {
            if name.eq_ignore_ascii_case("MIME-Version") {
                headers.remove_all_named(name);
            }
            prepend(headers, name, &text(*source)?)?;
        }
        if let Some(source) = self.subject {
            prepend(headers, "Subject", &text(source)?)?;
        }
        for (field, named) in [("Reply-To", &self.reply_to), ("From", &self.from)] {
            let Some(named) = named else { continue };
            let name = named.name.map(text).transpose()?;
            let value = mailbox(&text(named.email)?, name.as_deref()).map_err(|why| format!("{field}: {why}"))?;
            prepend(headers, field, &value)?;
        }
        Ok(root.to_bytes())
    }
}

fn attached(at: usize, attachment: &Attachment) -> Result<MimePart, InjectionError> {
    let wrong = |field: &str, why: &dyn core::fmt::Display| {
        InjectionError::at(format!("/content/attachments/{at}{field}"), why)
    };
    let decoded = match attachment.base64 {
        true => {
            let packed: String = attachment.data.split_ascii_whitespace().collect();
            Some(STANDARD.decode(packed).map_err(|error| wrong("/data", &format!("{error}: expected base64")))?)
        }
        false => None,
    };
    let octets = decoded.as_deref().unwrap_or(attachment.data.as_bytes());
    let Attachment { content_id, file_name, .. } = attachment;
    let (inline, content_id, file_name) = (content_id.is_some(), content_id.clone(), file_name.clone());
    let options = AttachmentOptions { file_name, inline, content_id };
    MimePart::new_binary(&attachment.content_type, octets, Some(&options)).map_err(|error| wrong("", &error))
}

/// A name that can be one, and is not of those the parts make.
fn check_name(name: &str) -> Result<(), String> {
    let is_made = ["Content-Type", "Content-Transfer-Encoding"].iter().any(|made| made.eq_ignore_ascii_case(name));
    if is_made {
        return Err(format!("{name} is made of the bodies and attachments: expected another header"));
    }
    mime::encode_field(name, b"", mime::ValueForm::Raw).map(drop).map_err(|error| error.to_string())
}

/// Most headers of a request.
const HEADERS_MAX: usize = 256;

/// A name as a JSON pointer has it.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
