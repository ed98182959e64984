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
        let end = text.find([' ', '\t']).unwrap_or(text.len());
        let mut parts = text[..end].split('.');
        let class = parts.next().filter(|p| matches!(*p, "2" | "4" | "5"))?;
        let subject = number(parts.next()?)?;
        let detail = number(parts.next()?)?;
        if parts.next().is_some() {
            return None;
        }
        let code = EnhancedCode { class: class.as_bytes()[0] - b'0', subject, detail };
        Some((code, text[end..].trim_start_matches([' ', '\t'])))
    }
}

impl fmt::Display for EnhancedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

fn number(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_only_well_formed_codes() {
        assert_eq!(EnhancedCode::split("5.7.1 no"), Some((EnhancedCode::new(5, 7, 1), "no")));
        assert_eq!(EnhancedCode::split("2.0.0"), Some((EnhancedCode::new(2, 0, 0), "")));
        for bad in ["", "3.1.1 x", "5.7 x", "5.7.1.2 x", "5.7.1x", "5.7.1000 x", "5..1 x", "5.+7.1 x"] {
            assert_eq!(EnhancedCode::split(bad), None, "{bad}");
        }
    }
}
