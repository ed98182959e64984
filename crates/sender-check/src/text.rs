//! Words of strangers, made fit to be shown, and domain names, made fit to be asked for.
//!
//! In: text from mail and DNS. Out: short printable text; A-labels in lower case. Cannot fail: what is no name is `None`.

/// `text` for a reason: printable, on one line, at most [`SHOWN_CHARS_MAX`] characters.
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { '?' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        out.push_str("...");
    }
    out
}

/// The name in A-labels and lower case, without a final dot (RFC 1035 section 2.3.4, RFC 5891). `None` when a label is empty
/// or too long, the whole is too long, or there is a character in it that names of hosts do not have.
pub fn domain_name(text: &str) -> Option<String> {
    if text.len() > NAME_TEXT_BYTES_MAX {
        return None;
    }
    let name = match text.is_ascii() {
        true => text.to_ascii_lowercase(),
        false => idna::domain_to_ascii(text).ok()?,
    };
    let name = name.strip_suffix('.').unwrap_or(&name);
    (has_name_shape(name) && is_host_like(name)).then(|| name.to_owned())
}

/// True when DNS could be asked for it: labels of 1 to 63 octets, 253 in all, printable.
pub(crate) fn has_name_shape(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= NAME_BYTES_MAX
        && name.split('.').all(|label| (1..=LABEL_BYTES_MAX).contains(&label.len()))
        && name.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// True when all is letters, digits, hyphens, underscores and dots.
pub(crate) fn is_host_like(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// True when `name` is `domain` or below it; both in lower case.
pub(crate) fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Longest name looked at, in bytes: room for U-labels.
const NAME_TEXT_BYTES_MAX: usize = 1024;

/// Longest name, in octets, without its final dot (RFC 1035).
pub(crate) const NAME_BYTES_MAX: usize = 253;

/// Longest label, in octets (RFC 1035).
const LABEL_BYTES_MAX: usize = 63;

/// Longest piece of foreign text in a reason, in characters.
const SHOWN_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(domain_name("Ex-Ample.COM."), Some("ex-ample.com".to_owned()));
        assert_eq!(domain_name("b\u{fc}cher.example"), Some("xn--bcher-kva.example".to_owned()));
        for bad in ["", ".", "a..b", "a b", "a@b", &"x".repeat(64), &["x"; 128].join(".")] {
            assert_eq!(domain_name(bad), None, "{bad}");
        }
        assert!(domain_name(&"x".repeat(63)).is_some());
        assert!(domain_name(&["x"; 127].join(".")).is_some());
        assert!(is_within("a.b.c", "b.c") && is_within("b.c", "b.c") && !is_within("ab.c", "b.c"));
    }

    #[test]
    fn foreign_text_is_bounded() {
        assert_eq!(shown("a\r\nb"), "a??b");
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX)).len(), SHOWN_CHARS_MAX);
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX + 1)).len(), SHOWN_CHARS_MAX + 3);
    }
}
