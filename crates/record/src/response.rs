//! What was answered: code, enhanced code, text.
//!
//! Owns [`Response`] and [`EnhancedCode`] in their log form. In: a code and the reply's text as received. Out: the parts,
//! the text on one line without the enhanced code, and the one-line form the classifier reads. Nothing fails: a text
//! without an enhanced code simply has none. Parsing replies from the wire is smtp-wire's.

use crate::json_object::JsonObject;
use core::fmt;
use serde::{Deserialize, Serialize};

/// An SMTP reply, ours or a peer's, or words of our own in that form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The three-digit code.
    pub code: u16,
    /// The enhanced status code, if the text began with one.
    pub enhanced_code: Option<EnhancedCode>,
    /// The text behind it, on one line.
    pub content: String,
    /// The command that was answered, where that matters (rejections).
    pub command: Option<String>,
}

impl Response {
    /// Takes a reply apart: an enhanced code at the head of `text` becomes a field, lines become one line.
    ///
    /// Many servers repeat the enhanced code on every line; repetitions of the first are dropped.
    pub fn from_text(code: u16, text: &str) -> Self {
        let mut enhanced_code = None;
        let mut content = String::with_capacity(text.len());
        for (index, line) in text.split(['\r', '\n']).map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            let line = match EnhancedCode::split(line) {
                Some((first, rest)) if index == 0 => {
                    enhanced_code = Some(first);
                    rest
                }
                Some((again, rest)) if enhanced_code == Some(again) => rest,
                _ => line,
            };
            if !content.is_empty() && !line.is_empty() {
                content.push(' ');
            }
            content.push_str(line);
        }
        Response { code, enhanced_code, content, command: None }
    }

    /// A reply whose parts are known; line breaks in `content` become blanks.
    pub fn new(code: u16, enhanced_code: Option<EnhancedCode>, content: impl Into<String>) -> Self {
        let mut content: String = content.into();
        if content.contains(['\r', '\n']) {
            let lines: Vec<&str> = content.split(['\r', '\n']).map(str::trim).filter(|l| !l.is_empty()).collect();
            content = lines.join(" ");
        }
        Response { code, enhanced_code, content, command: None }
    }

    /// The same reply, with the command it answers.
    pub fn to_command(self, command: impl Into<String>) -> Self {
        Response { command: Some(command.into()), ..self }
    }

    /// `550 5.1.1 no such user`: what the bounce classifier and `requeue_message` are given.
    pub fn to_single_line(&self) -> String {
        self.to_string()
    }
}

impl Response {
    /// As it is serialized.
    pub(crate) fn write_members(&self, object: &mut JsonObject) -> serde_json::Result<()> {
        object.value("code", &self.code)?;
        object.object_or_null("enhanced_code", self.enhanced_code.as_ref(), |code, object| {
            object.value("class", &code.class)?;
            object.value("subject", &code.subject)?;
            object.value("detail", &code.detail)
        })?;
        object.text("content", &self.content)?;
        object.text_or_null("command", self.command.as_deref())
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(enhanced) = self.enhanced_code {
            write!(f, " {enhanced}")?;
        }
        if !self.content.is_empty() {
            write!(f, " {}", self.content)?;
        }
        Ok(())
    }
}

/// An enhanced status code (RFC 3463): `class.subject.detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnhancedCode {
    /// 2, 4 or 5.
    pub class: u8,
    /// 0-999.
    pub subject: u16,
    /// 0-999.
    pub detail: u16,
}

impl EnhancedCode {
    /// The code of these three numbers.
    pub const fn new(class: u8, subject: u16, detail: u16) -> Self {
        EnhancedCode { class, subject, detail }
    }

    /// Splits `5.7.1 text` into code and text; nothing unless `text` begins with a code and then a blank or its end.
    pub fn split(text: &str) -> Option<(EnhancedCode, &str)> {
        let (head, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        let mut parts = head.split('.');
        let class = match parts.next()? {
            "2" => 2,
            "4" => 4,
            "5" => 5,
            _ => return None,
        };
        let (subject, detail) = (up_to_999(parts.next()?)?, up_to_999(parts.next()?)?);
        match parts.next() {
            None => Some((EnhancedCode { class, subject, detail }, rest.trim_start())),
            Some(_) => None,
        }
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

fn up_to_999(digits: &str) -> Option<u16> {
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_replies_apart() {
        let code = |class, subject, detail| Some(EnhancedCode::new(class, subject, detail));
        for (text, enhanced, content) in [
            ("5.1.1 no such user", code(5, 1, 1), "no such user"),
            ("5.1.1 no such\r\n5.1.1  user\n", code(5, 1, 1), "no such user"),
            ("5.1.1 see\n4.2.2 below", code(5, 1, 1), "see 4.2.2 below"),
            ("hello\n5.1.1 later", None, "hello 5.1.1 later"),
            ("2.0.0", code(2, 0, 0), ""),
            ("2.0.0\nOK", code(2, 0, 0), "OK"),
            ("", None, ""),
            ("3.1.1 x", None, "3.1.1 x"),
            ("5.1.1000 x", None, "5.1.1000 x"),
            ("5.1 x", None, "5.1 x"),
            ("5.1.1.1 x", None, "5.1.1.1 x"),
            ("5.1.1x", None, "5.1.1x"),
            ("5..1 x", None, "5..1 x"),
        ] {
            let response = Response::from_text(550, text);
            assert_eq!((response.enhanced_code, response.content.as_str()), (enhanced, content), "{text:?}");
        }
    }

    #[test]
    fn one_line_for_the_classifier() {
        for (response, line) in [
            (Response::from_text(550, "5.1.1 no\nuser"), "550 5.1.1 no user"),
            (Response::from_text(250, ""), "250"),
            (Response::new(451, Some(EnhancedCode::new(4, 4, 1)), "a\r\nb"), "451 4.4.1 a b"),
            (Response::new(400, None, "plain"), "400 plain"),
        ] {
            assert_eq!(response.to_single_line(), line);
        }
    }
}
