//! How watched files differ from what they were: lines for people who ask what changed.
//!
//! In: what two looks at a file found. Out: its lines that came and went, with a few around them. Whoever may ask the server may
//! see them, so secrets stay out: of a file that not everybody on this host may read, or with a private key in it, no line is kept in
//! memory or shown; of others, text in quotes behind a name such as `password`, and logins in URLs, are masked. Bounded: what is
//! larger than [`TEXT_MAX`] is not compared, and [`LINES_MAX`] lines are shown of a file. Nothing fails.

use engine::{Change, ChangedLine, FileChange};
use similar::{ChangeTag, TextDiff};
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a look at a file found. Two are equal when its content is the same.
#[derive(Clone, Debug)]
pub struct Found {
    print: u64,
    /// What it says, or why that is not kept.
    text: Result<Arc<str>, &'static str>,
}

impl PartialEq for Found {
    fn eq(&self, other: &Found) -> bool {
        self.print == other.print
    }
}

impl Found {
    /// Looks at a file; its text is kept if it has at most so many octets.
    pub fn look(file: &Path, octets_max: usize) -> Found {
        let content = fs::metadata(file).and_then(|about| Ok((about, fs::read(file)?)));
        let mut hasher = DefaultHasher::new();
        // One that cannot be read, now or any more, is something else than one that can.
        content.as_ref().map(|(_, octets)| octets).map_err(io::Error::kind).hash(&mut hasher);
        Found { print: hasher.finish(), text: text_of(content, octets_max.min(TEXT_MAX)) }
    }

    /// Octets of text that are kept.
    pub fn kept(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }
}

fn text_of(content: io::Result<(Metadata, Vec<u8>)>, octets_max: usize) -> Result<Arc<str>, &'static str> {
    let (about, octets) = content.map_err(|_| "it cannot be read")?;
    if about.permissions().mode() & READABLE_BY_ALL == 0 {
        return Err("not everybody on this host may read it");
    }
    if octets.len() > octets_max {
        return Err("it is too large to be kept beside what it was");
    }
    let text = String::from_utf8(octets).map_err(|_| "it is no text")?;
    if text.contains("PRIVATE KEY-----") {
        return Err("a private key is in it");
    }
    Ok(text.into())
}

/// How a file differs; `None` where it is what it was.
pub fn change(file: &Path, before: Option<&Found>, now: Option<&Found>) -> Option<FileChange> {
    let change = match (before, now) {
        (before, now) if before == now => return None,
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    };
    let text = |found: Option<&Found>| found.map_or_else(|| Ok(Arc::from("")), |found| found.text.clone());
    let (lines, withheld) = match text(before).and_then(|before| Ok((before, text(now)?))) {
        Ok((before, now)) => differing_lines(&before, &now),
        Err(why) => (Vec::new(), Some(why)),
    };
    Some(FileChange { file: file.display().to_string(), change, lines, withheld })
}

/// The lines that differ and those around them, and why these are not all.
fn differing_lines(before: &str, now: &str) -> (Vec<ChangedLine>, Option<&'static str>) {
    let diff = TextDiff::configure().timeout(DIFF_MAX).diff_lines(before, now);
    let mut lines = Vec::new();
    for ops in diff.grouped_ops(LINES_AROUND) {
        let changes = ops.iter().flat_map(|op| diff.iter_changes(op));
        for change in changes {
            let (kind, at) = match change.tag() {
                ChangeTag::Equal => (Change::Same, change.new_index()),
                ChangeTag::Insert => (Change::Added, change.new_index()),
                ChangeTag::Delete => (Change::Removed, change.old_index()),
            };
            if lines.len() == LINES_MAX {
                return (lines, Some("more lines differ than are shown"));
            }
            let text = without_secrets(change.value().trim_end_matches(['\r', '\n']));
            lines.push(ChangedLine { change: kind, number: at.unwrap_or_default() + 1, text });
        }
        if let Some(last) = lines.last() {
            lines.push(ChangedLine { change: Change::Gap, number: last.number + 1, text: String::new() });
        }
    }
    // Behind the last there is nothing to be left out.
    lines.pop_if(|line| line.change == Change::Gap);
    (lines, None)
}

/// A line, cut off at [`LINE_MAX`], with what is likely to be secret masked.
fn without_secrets(line: &str) -> String {
    let (mut shown, mut rest, mut is_secret) = (String::with_capacity(line.len()), line, false);
    while let Some(at) = rest.find(QUOTES) {
        let (name, quoted) = rest.split_at(at);
        is_secret |= names_a_secret(name);
        // A comma ends what a name is about, unless what is in quotes is itself the name.
        let (value, behind) = quoted_text(quoted);
        let is_name = behind.trim_start_matches([']', ' ']).starts_with(['=', ':']);
        shown.push_str(name);
        match (is_secret, is_name) {
            (true, false) => shown.push_str(&format!("{}***{}", &quoted[..1], &quoted[..1])),
            _ => shown.push_str(&without_logins(&quoted[..quoted.len() - behind.len()])),
        }
        is_secret = match is_name {
            true => is_secret || names_a_secret(value),
            false => is_secret && !behind.trim_start().starts_with([',', ';', '}']),
        };
        rest = behind;
    }
    let rest = unquoted_secret(rest, is_secret);
    shown.push_str(&rest);
    shown.chars().take(LINE_MAX).collect()
}

/// The end of a line: a value of YAML needs no quotes.
fn unquoted_secret(rest: &str, is_secret: bool) -> String {
    match rest.split_once([':', '=']) {
        Some((name, value)) if (is_secret || names_a_secret(name)) && !value.trim().is_empty() => {
            format!("{}***", &rest[..=name.len()])
        }
        _ => without_logins(rest),
    }
}

/// What is between the quotes at the beginning, and what is behind them.
fn quoted_text(quoted: &str) -> (&str, &str) {
    let quote = &quoted[..1];
    let mut from = 1;
    while let Some(at) = quoted[from..].find(quote) {
        let at = from + at;
        let escapes = quoted[1..at].bytes().rev().take_while(|octet| *octet == b'\\').count();
        if escapes % 2 == 0 {
            return (&quoted[1..at], &quoted[at + 1..]);
        }
        from = at + 1;
    }
    // It goes on in the next line.
    (&quoted[1..], "")
}

fn names_a_secret(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|name| text.contains(name))
}

/// Text without who logs in at the URLs in it.
fn without_logins(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace);
    let shown = words.map(|word| {
        match word.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
            Some((scheme, (_, host))) => format!("{scheme}://***@{host}"),
            None => word.to_owned(),
        }
    });
    shown.collect()
}

/// Octets of a file that are kept, to be compared.
pub const TEXT_MAX: usize = 256 << 10;
/// Lines of a file that are shown.
const LINES_MAX: usize = 200;
/// Characters of a line.
const LINE_MAX: usize = 400;
/// Lines around one that differs.
const LINES_AROUND: usize = 3;
/// How long is looked for the shortest account of the differences.
const DIFF_MAX: Duration = Duration::from_millis(200);
/// Of the rights of a file (chmod).
const READABLE_BY_ALL: u32 = 0o004;
const QUOTES: [char; 2] = ['"', '\''];
/// What names of secrets have in them.
const SECRET_NAMES: [&str; 9] =
    ["passw", "secret", "token", "credential", "private", "api_key", "apikey", "authorization", "bearer"];

#[cfg(test)]
mod tests {
    use super::*;

    fn found(scratch: &Path, text: &str, mode: u32) -> Found {
        let file = scratch.join("a.lua");
        fs::write(&file, text).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("chmod");
        Found::look(&file, TEXT_MAX)
    }

    fn told(change: &FileChange) -> Vec<String> {
        let sign = |change| match change {
            Change::Added => '+',
            Change::Removed => '-',
            Change::Gap => '~',
            Change::Same | Change::Changed => ' ',
        };
        change.lines.iter().map(|line| format!("{}{} {}", sign(line.change), line.number, line.text)).collect()
    }

    #[test]
    fn lines_that_came_and_went_are_told_with_their_numbers() {
        let dir = tempfile::tempdir().expect("scratch");
        let old = (1..=20).map(|n| format!("line {n}\n")).collect::<String>();
        let new = old.replace("line 2\n", "line two\n").replace("line 15\n", "");
        let (before, now) = (found(dir.path(), &old, 0o644), found(dir.path(), &new, 0o644));
        let file = Path::new("/etc/a.lua");
        assert_eq!(change(file, Some(&before), Some(&before.clone())), None);
        let told_of = |before: Option<&Found>, now: Option<&Found>| {
            let change = change(file, before, now).expect("a change");
            (change.change, change.withheld, told(&change))
        };
        let (kind, withheld, lines) = told_of(Some(&before), Some(&now));
        assert_eq!((kind, withheld), (Change::Changed, None));
        let expected = [
            " 1 line 1",
            "-2 line 2",
            "+2 line two",
            " 3 line 3",
            " 4 line 4",
            " 5 line 5",
            "~6 ",
            " 12 line 12",
            " 13 line 13",
            " 14 line 14",
            "-15 line 15",
            " 15 line 16",
            " 16 line 17",
            " 17 line 18",
        ];
        assert_eq!(lines, expected);
        let (kind, _, lines) = told_of(None, Some(&before));
        assert_eq!((kind, lines.len(), lines[0].as_str()), (Change::Added, 20, "+1 line 1"));
        let (kind, _, lines) = told_of(Some(&before), None);
        assert_eq!((kind, lines.len(), lines[19].as_str()), (Change::Removed, 20, "-20 line 20"));
    }

    #[test]
    fn what_not_everybody_may_read_is_kept_by_nobody() {
        let dir = tempfile::tempdir().expect("scratch");
        let open = found(dir.path(), "a = 1\n", 0o644);
        let large = "x".repeat(TEXT_MAX + 1);
        for (text, mode, why) in [
            ("a = 2\n", 0o640, "not everybody on this host may read it"),
            ("-----BEGIN RSA PRIVATE KEY-----\n", 0o644, "a private key is in it"),
            (&large, 0o644, "it is too large to be kept beside what it was"),
        ] {
            let closed = found(dir.path(), text, mode);
            for (before, now) in [(&open, &closed), (&closed, &open)] {
                let change = change(Path::new("a.lua"), Some(before), Some(now)).expect("a change");
                assert_eq!((change.lines, change.withheld), (Vec::new(), Some(why)));
            }
            assert_eq!(closed.kept(), 0);
        }
        assert_eq!(Found::look(&dir.path().join("gone"), TEXT_MAX).text, Err("it cannot be read"));
    }

    #[test]
    fn a_file_that_is_all_new_is_told_in_part() {
        let dir = tempfile::tempdir().expect("scratch");
        let many = found(dir.path(), &"x\n".repeat(LINES_MAX + 1), 0o644);
        let change = change(Path::new("a.lua"), None, Some(&many)).expect("a change");
        assert_eq!((change.lines.len(), change.withheld), (LINES_MAX, Some("more lines differ than are shown")));
    }

    #[test]
    fn what_is_likely_to_be_secret_is_masked() {
        for (line, shown) in [
            ("listen = '0.0.0.0:25',", "listen = '0.0.0.0:25',"),
            ("password = 'tiger', port = 25", "password = '***', port = 25"),
            ("smtp_auth_plain_password = \"ti\\\"ger\"", "smtp_auth_plain_password = \"***\""),
            ("user = 'scott', password = { key_data = 'tiger' }", "user = 'scott', password = { key_data = '***' }"),
            ("  ['api_token'] = 'abc', name = 'x'", "  ['api_token'] = '***', name = 'x'"),
            ("{\"secret\": \"abc\", \"name\": \"x\"}", "{\"secret\": \"***\", \"name\": \"x\"}"),
            (
                "headers = { ['Authorization'] = 'Bearer ' .. 'abc' }",
                "headers = { ['Authorization'] = '***' .. '***' }",
            ),
            ("password: tiger", "password:***"),
            ("password = os.getenv 'PW'", "password = os.getenv '***'"),
            ("node = 'redis://joe:tiger@r.test/0'", "node = 'redis://***@r.test/0'"),
            ("-- see https://joe:tiger@r.test/0 there", "-- see https://***@r.test/0 there"),
            ("password = 'goes on in the next", "password = '***'"),
            ("max_connections = 100", "max_connections = 100"),
        ] {
            assert_eq!(without_secrets(line), shown);
        }
        assert_eq!(without_secrets(&"x".repeat(LINE_MAX + 1)).len(), LINE_MAX);
    }
}
