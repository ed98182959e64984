//! A request for mail as it is read: straight into what it means, or a word about what is wrong with it.
//!
//! Most requests are right, so they are read in one go; one that is not is read again slowly, by the reader of options, who
//! names the place and forgives a little more (a list where an empty table stands, a whole number with a point).

use crate::pointer;
use engine::BulkError;
use injection::{Injection, InjectionError};
use serde_json::Value;

/// The request in these octets.
///
/// # Errors
/// [`BulkError::NotJson`], or [`BulkError::Wrong`] with a JSON pointer.
pub(crate) fn read(octets: &[u8]) -> Result<Injection, BulkError> {
    if let Ok(injection) = serde_json::from_slice(octets) {
        return Ok(injection);
    }
    config::parse("request", value(octets)?).map_err(|error| {
        // Not kept beside the other: it takes many times as much as the text.
        let pointer = value(octets).map(|given| pointer::of_text(&error.path, &given));
        let wrong = |pointer| BulkError::Wrong(InjectionError { pointer, why: error.fault.to_string() });
        pointer.map_or_else(|not_json| not_json, wrong)
    })
}

fn value(octets: &[u8]) -> Result<Value, BulkError> {
    serde_json::from_slice(octets).map_err(|error| BulkError::NotJson(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_read_the_same() {
        let quick = r#"{"envelope_sender": "a@b.test", "recipients": [{"email": "x@y.test"}], "content": "Subject: é\r\n\r\n\u00fc"}"#;
        // A member that stands twice is for the slow one, who takes the last.
        let slow = quick.replacen('{', r#"{"envelope_sender": "other", "#, 1);
        let [quick, slow] = [quick, &slow].map(|text| read(text.as_bytes()).expect("sound"));
        let json = |injection: &Injection| serde_json::to_string(injection).expect("JSON");
        assert_eq!(json(&quick), json(&slow));
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let place = |text: &str| match read(text.as_bytes()).expect_err("wrong") {
            BulkError::Wrong(error) => error.pointer,
            error => error.to_string(),
        };
        assert_eq!(
            place(r#"{"envelope_sender": "", "recipients": [{"email": 7}], "content": ""}"#),
            "/recipients/0/email"
        );
        assert!(place("{").starts_with("the line is not JSON: "));
    }
}
