//! Groups of fields as reports have them (RFC 3464 section 2.1, RFC 5965 section 3): `Name: value` lines, folded, groups
//! set apart by blank lines.
//!
//! In: the decoded content of a report's part. Out: groups of names in lower case and values as text. Bounded by the
//! constants below; bytes beyond UTF-8 are replaced. Lines without a colon are left out.

use crate::report::ReportError;

/// Fields of one group, in order, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group(pub Vec<(String, String)>);

impl Group {
    /// Takes the first field of that name out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes every field of that name out.
    pub fn take_all(&mut self, name: &str) -> Vec<String> {
        let (taken, rest) = std::mem::take(&mut self.0).into_iter().partition(|(known, _)| known == name);
        self.0 = rest;
        let taken: Vec<(String, String)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// What is left, by name.
    pub fn rest(self) -> std::collections::BTreeMap<String, Vec<String>> {
        let mut rest = std::collections::BTreeMap::<String, Vec<String>>::new();
        for (name, value) in self.0 {
            rest.entry(name).or_default().push(value);
        }
        rest
    }
}

/// The groups of a part, empty ones left out.
///
/// # Errors
/// [`ReportError::TooMany`] beyond [`GROUPS_MAX`] or [`FIELDS_MAX`].
pub(crate) fn groups(content: &[u8]) -> Result<Vec<Group>, ReportError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut group = Group::default();
    for line in content.split(|octet| *octet == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            if !group.0.is_empty() {
                groups.push(std::mem::take(&mut group));
            }
            if groups.len() > GROUPS_MAX {
                return Err(ReportError::TooMany("groups of fields", GROUPS_MAX));
            }
            continue;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(VALUE_OCTETS_MAX)]);
        if line[0] == b' ' || line[0] == b'\t' {
            if let Some((_, value)) = group.0.last_mut().filter(|(_, value)| value.len() < VALUE_OCTETS_MAX) {
                value.push(' ');
                value.push_str(text.trim());
            }
            continue;
        }
        let Some((name, value)) = text.split_once(':') else { continue };
        if group.0.len() == FIELDS_MAX {
            return Err(ReportError::TooMany("fields of a group", FIELDS_MAX));
        }
        group.0.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    if !group.0.is_empty() {
        groups.push(group);
    }
    match groups.len() > GROUPS_MAX {
        true => Err(ReportError::TooMany("groups of fields", GROUPS_MAX)),
        false => Ok(groups),
    }
}

/// Groups of a report: the message's and one for each recipient.
pub const GROUPS_MAX: usize = 1024;
/// Fields of a group.
pub const FIELDS_MAX: usize = 256;
/// Longest line of a value (octets); a folded value has at most this and one line more.
pub const VALUE_OCTETS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_set_apart_and_lines_unfolded() {
        let found = groups(b"\r\nA: 1\r\n b\r\nno colon\r\nB:2\nb: 3\n\n\nC : x:y").expect("few");
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        assert_eq!(
            found,
            [Group(vec![pair("a", "1 b"), pair("b", "2"), pair("b", "3")]), Group(vec![pair("c", "x:y")])]
        );
        let mut first = found[0].clone();
        assert_eq!(
            (first.take_all("b"), first.take("a"), first.take("a")),
            (vec!["2".into(), "3".into()], Some("1 b".into()), None)
        );
    }

    #[test]
    fn bounds_hold_at_bound_and_beyond() {
        let many = |count: usize, text: &str| groups(text.repeat(count).as_bytes()).map(|g| g.len());
        assert_eq!(many(GROUPS_MAX, "a: b\n\n"), Ok(GROUPS_MAX));
        assert!(many(GROUPS_MAX + 1, "a: b\n\n").is_err());
        assert!(
            groups(("a: b\n\n".repeat(GROUPS_MAX) + "a: b").as_bytes()).is_err(),
            "the last one has no blank line behind it"
        );
        assert_eq!(many(FIELDS_MAX, "a: b\n"), Ok(1));
        assert!(many(FIELDS_MAX + 1, "a: b\n").is_err());
        let folded = groups(("a: b\n".to_owned() + &" x\n".repeat(100_000)).as_bytes()).expect("few");
        assert!(folded[0].0[0].1.len() <= 2 * VALUE_OCTETS_MAX);
    }
}
