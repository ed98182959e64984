//! Message ids: `<left@right>`, alone or in a list (RFC 5322 section 3.6.4).
//!
//! The value is the id without its angle brackets. Read tolerantly: ids without an at sign, without brackets when nothing
//! else is there, and the obsolete phrases between them are in the field. Written strictly: no blanks, no brackets inside.

use crate::scan::{Scanner, unfolded};

/// The one id of a field.
pub(crate) fn read(raw: &[u8]) -> Result<String, String> {
    let mut all = read_list(raw)?;
    match all.pop() {
        Some(id) if all.is_empty() => Ok(id),
        Some(_) => Err(format!("{} ids", all.len() + 1)),
        None => Err("no id".to_owned()),
    }
}

/// All ids of a field, in order; at most [`IDS_MAX`].
pub(crate) fn read_list(raw: &[u8]) -> Result<Vec<String>, String> {
    let text = unfolded(raw);
    let mut scanner = Scanner::new(&text);
    let (mut ids, mut words) = (Vec::new(), Vec::new());
    loop {
        scanner.skip_blanks();
        if scanner.is_at_end() {
            break;
        }
        if ids.len() + words.len() >= IDS_MAX {
            return Err(format!("more than {IDS_MAX} ids"));
        }
        if scanner.eat('<') {
            let id: String = scanner.until(|c| c == '>').split_whitespace().collect();
            if !scanner.eat('>') || id.is_empty() {
                return Err("an id that is empty or not closed by >".to_owned());
            }
            ids.push(id);
        } else if !scanner.eat(',') && scanner.quoted().is_none() {
            words.push(scanner.word(&['<', ',', '"']).to_owned());
        }
    }
    // phrases between ids are obsolete and carry nothing; a field without brackets is taken at its word
    Ok(if ids.is_empty() { words } else { ids })
}

/// The value of a field, folded between ids.
pub(crate) fn write(ids: &[String]) -> Result<String, String> {
    let mut out = Vec::with_capacity(ids.len());
    for id in ids {
        let is_usable = !id.is_empty()
            && id.len() <= ID_OCTETS_MAX
            && id.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'<' | b'>'));
        if !is_usable {
            return Err(format!("id {id:?}"));
        }
        out.push(format!("<{id}>"));
    }
    Ok(out.join("\r\n "))
}

/// An id as given by people, with its angle brackets or without.
pub(crate) fn without_brackets(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text)
}

/// Most ids in one field.
pub const IDS_MAX: usize = 10_000;

/// Longest id written, in octets: with brackets and the name it stays on a line of 998.
pub const ID_OCTETS_MAX: usize = 900;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_written() {
        assert_eq!(read(b" <a@b> (note)").as_deref(), Ok("a@b"));
        assert_eq!(read(b"a@b").as_deref(), Ok("a@b"));
        assert_eq!(read(b"<a\r\n @b>").as_deref(), Ok("a@b"));
        assert_eq!(read_list(b"<a@b><c>, Re your mail <d@e>"), Ok(vec!["a@b".into(), "c".into(), "d@e".into()]));
        for bad in [b"<a@b> <c@d>".as_slice(), b"", b"<a", b"<>"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert_eq!(write(&["a@b".into(), "c".into()]).as_deref(), Ok("<a@b>\r\n <c>"));
        for bad in ["", "a b", "a>", "\u{fc}@b", "a\r\nb"] {
            assert!(write(&[bad.to_owned()]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_and_lengths_at_the_bound_and_past_it() {
        assert_eq!(read_list("<a>".repeat(IDS_MAX).as_bytes()).map(|ids| ids.len()), Ok(IDS_MAX));
        assert!(read_list("<a>".repeat(IDS_MAX + 1).as_bytes()).is_err());
        assert!(write(&["a".repeat(ID_OCTETS_MAX)]).is_ok());
        assert!(write(&["a".repeat(ID_OCTETS_MAX + 1)]).is_err());
    }
}
