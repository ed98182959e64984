//! Enhanced mail system status codes (RFC 3463): `class.subject.detail`.

use core::fmt;

/// `5.7.1` and its kin. Class is 2, 4 or 5; subject and detail are 0-999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnhancedCode {
    /// 2 success, 4 persistent transient failure, 5 permanent failure.
    pub class: u8,
    /// What the code is about (RFC 3463 section 3).
    pub subject: u16,
    /// The finer reason.
    pub detail: u16,
}

impl EnhancedCode {
    /// Plain constructor, usable in tables of constants.
    pub const fn new(class: u8, subject: u16, detail: u16) -> Self {
        EnhancedCode { class, subject, detail }
    }

    /// Splits `5.7.1 text` into the code and the text behind it; `None` when `text` does not
    /// begin with a well-formed code followed by a blank or the end (RFC 2034 section 4).
    pub fn split(text: &str) -> Option<(EnhancedCode, &str)> {
        let (class, rest) = number(text).filter(|(_, rest)| text.len() - rest.len() == 1)?;
        let (subject, rest) = number(rest.strip_prefix('.')?)?;
        let (detail, rest) = number(rest.strip_prefix('.')?)?;
        let class = u8::try_from(class).ok().filter(|class| matches!(class, 2 | 4 | 5))?;
        let behind = rest.trim_start_matches([' ', '\t']);
        let is_whole = rest.is_empty() || behind.len() < rest.len();
        is_whole.then_some((EnhancedCode { class, subject, detail }, behind))
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// A number of one to three digits, and what stands behind it.
fn number(text: &str) -> Option<(u16, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let value = text.bytes().take(digits.min(3)).fold(0, |value, digit| value * 10 + u16::from(digit - b'0'));
    (1..=3).contains(&digits).then(|| (value, &text[digits..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_only_well_formed_codes() {
        assert_eq!(EnhancedCode::split("5.7.1 no"), Some((EnhancedCode::new(5, 7, 1), "no")));
        assert_eq!(EnhancedCode::split("2.0.0"), Some((EnhancedCode::new(2, 0, 0), "")));
        for bad in ["", "05.1.1 x", "3.1.1 x", "5.7 x", "5.7.1.2 x", "5.7.1x", "5.7.1000 x", "5..1 x", "5.+7.1 x"] {
            assert_eq!(EnhancedCode::split(bad), None, "{bad}");
        }
    }
}
