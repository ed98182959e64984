//! A request in portions, for what is generated later.

use crate::{Content, Injection};

impl Injection {
    /// The same for at most `recipients_max` recipients each, made one at a time: each has the whole content.
    pub fn portions(mut self, recipients_max: usize) -> impl ExactSizeIterator<Item = Injection> {
        let mut all = std::mem::take(&mut self.recipients);
        let size = recipients_max.max(1);
        (0..all.len().div_ceil(size)).map(move |_| {
            let rest = all.split_off(size.min(all.len()));
            Injection { recipients: std::mem::replace(&mut all, rest), ..self.clone() }
        })
    }

    /// Octets of the texts and attachments, before templates.
    pub fn content_octets(&self) -> usize {
        let content = match &self.content {
            Content::Message(text) => return text.len(),
            Content::Structured(content) => content,
        };
        let texts = [&content.text_body, &content.html_body, &content.amp_html_body, &content.subject];
        let texts = texts.into_iter().flatten().map(String::len);
        let headers = content.headers.iter().map(|(name, value)| name.len() + value.len());
        texts.chain(headers).chain(content.attachments.iter().map(|attachment| attachment.data.len())).sum()
    }
}
