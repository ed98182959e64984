//! Character sets of text (RFC 2046 section 4.1.2): decoding, and guessing where none is declared.
//!
//! Decoding never fails: unknown sets and US-ASCII with 8-bit octets are read as UTF-8, and what does not decode becomes
//! U+FFFD. Guessing ([`Detection`]) is for the conformance fix alone; ordinary reading never guesses.

use crate::PartError;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8};

/// Whether and how the character set of undeclared 8-bit text is guessed.
#[derive(Clone, Debug, Default)]
pub struct Detection {
    candidates: Option<Vec<&'static Encoding>>,
    excluded: Vec<&'static Encoding>,
    is_on: bool,
}

impl Detection {
    /// Guesses when `is_on`: among `include` (all when it is empty), never one of `exclude`. Names as in the WHATWG
    /// Encoding Standard, letters of any case.
    ///
    /// # Errors
    /// A name that is no character set.
    pub fn new(is_on: bool, include: &[String], exclude: &[String]) -> Result<Detection, PartError> {
        let all = |names: &[String]| names.iter().map(|name| known(name)).collect::<Result<Vec<_>, _>>();
        let candidates = Some(all(include)?).filter(|names| !names.is_empty());
        Ok(Detection { candidates, excluded: all(exclude)?, is_on })
    }

    /// The character set of `octets`: the best guess when it is permitted, else the first permitted one, in the order
    /// given, in which they decode. `None` when guessing is off or nothing permitted fits.
    pub(crate) fn guess(&self, octets: &[u8]) -> Option<&'static Encoding> {
        if !self.is_on {
            return None;
        }
        let fits = |encoding: &&'static Encoding| {
            !self.excluded.contains(encoding)
                && self.candidates.as_ref().is_none_or(|all| all.contains(encoding))
                && encoding.decode_without_bom_handling_and_without_replacement(octets).is_some()
        };
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
        detector.feed(octets, true);
        let first = detector.guess(None, Utf8Detection::Allow);
        if fits(&first) {
            return Some(first);
        }
        let others = self.candidates.as_deref().unwrap_or(&OTHERS);
        others.iter().copied().find(fits)
    }
}

/// Text from octets; `label` is the declared character set.
pub(crate) fn decode(octets: &[u8], label: Option<&str>) -> String {
    match label.and_then(|label| Encoding::for_label(label.as_bytes())) {
        // US-ASCII is windows-1252 by that standard; mail that claims it and is not, is mostly UTF-8
        Some(_) if label.is_some_and(is_us_ascii) => String::from_utf8_lossy(octets).into_owned(),
        Some(encoding) if encoding != UTF_8 => encoding.decode_with_bom_removal(octets).0.into_owned(),
        _ => String::from_utf8_lossy(octets).into_owned(),
    }
}

/// The same; `None` when some octet does not decode.
pub(crate) fn decode_whole(octets: &[u8], label: Option<&str>) -> Option<String> {
    match label.and_then(|label| Encoding::for_label(label.as_bytes())) {
        Some(encoding) if encoding != UTF_8 && !label.is_some_and(is_us_ascii) => {
            let (text, had_errors) = encoding.decode_with_bom_removal(octets);
            (!had_errors).then(|| text.into_owned())
        }
        _ => String::from_utf8(octets.to_vec()).ok(),
    }
}

/// True when ASCII octets mean ASCII in this character set; unknown ones count as such.
pub(crate) fn is_ascii_compatible(label: &str) -> bool {
    Encoding::for_label(label.as_bytes()).is_none_or(Encoding::is_ascii_compatible)
}

/// True for the names of US-ASCII, which cannot hold 8-bit octets.
pub(crate) fn is_us_ascii(label: &str) -> bool {
    ["us-ascii", "ascii", "ansi_x3.4-1968", "iso646-us"].iter().any(|name| label.trim().eq_ignore_ascii_case(name))
}

fn known(label: &str) -> Result<&'static Encoding, PartError> {
    Encoding::for_label(label.as_bytes()).ok_or_else(|| PartError::UnknownCharset { label: label.to_owned() })
}

/// What is tried when the first guess is excluded: what mail without a declaration has mostly been.
const OTHERS: [&Encoding; 6] = [
    UTF_8,
    encoding_rs::WINDOWS_1252,
    encoding_rs::WINDOWS_1251,
    encoding_rs::SHIFT_JIS,
    encoding_rs::GBK,
    encoding_rs::EUC_KR,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded() {
        let cases: [(&[u8], Option<&str>, &str); 8] = [
            (b"\xfc", Some("iso-8859-1"), "\u{fc}"),
            (b"\xf0\xd2", Some("KOI8-R"), "\u{41f}\u{440}"),
            (b"\x1b$B4A;z\x1b(B", Some("iso-2022-jp"), "\u{6f22}\u{5b57}"),
            ("\u{fc}".as_bytes(), None, "\u{fc}"),
            ("\u{fc}".as_bytes(), Some("us-ascii"), "\u{fc}"),
            ("\u{feff}x".as_bytes(), Some("utf-8"), "\u{feff}x"),
            (b"\xff\xfea\0", Some("utf-16"), "a"),
            (b"\xff", Some("no-such"), "\u{fffd}"),
        ];
        for (octets, label, text) in cases {
            assert_eq!(decode(octets, label), text, "{label:?}");
            let whole = (!text.contains('\u{fffd}')).then(|| text.to_owned());
            assert_eq!(decode_whole(octets, label), whole, "{label:?}");
        }
    }

    #[test]
    fn guesses_keep_to_what_is_permitted() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let latin = b"gr\xfcn und \xfcber die Stra\xdfe, f\xfcr M\xe4dchen";
        let guess = |include: &[&str], exclude: &[&str]| {
            let detection = Detection::new(true, &names(include), &names(exclude)).expect("known names");
            detection.guess(latin).map(Encoding::name)
        };
        assert_eq!(guess(&[], &[]), Some("windows-1252"));
        assert_eq!(guess(&["iso-8859-2", "koi8-r"], &[]), Some("ISO-8859-2"));
        assert_ne!(guess(&[], &["windows-1252"]), Some("windows-1252"));
        assert_eq!(guess(&["utf-8"], &[]), None);
        assert_eq!(Detection::default().guess(latin), None);
        let unknown = Detection::new(true, &names(&["klingon"]), &[]).expect_err("no such set");
        assert!(unknown.to_string().contains("\"klingon\""), "{unknown}");
    }
}
