//! How watched files differ from what they were: lines for people who ask what changed.
//!
//! In: what two looks at a file found. Out: its lines that came and went, with a few around them. Whoever may ask the server may
//! see them, so of a file that not everybody on this host may read, or with a private key in it, no line is shown: what is
//! shown could be read without the server. Of the others what is likely to be secret is masked all the same, by names such as
//! `password` and by indentation. Bounded: what is larger than [`TEXT_MAX`] is not compared, and who asks says how much is shown.
//! Nothing fails.

use config::shown_url;
use engine::{Change, ChangedLine, FileChange};
use similar::{ChangeTag, TextDiff};
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
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
        let content = File::open(file).and_then(|mut file| {
            let mut octets = Vec::new();
            file.read_to_end(&mut octets)?;
            Ok((file.metadata()?, octets))
        });
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
/// Its lines take what they need of `room`, in octets, and there are no more than that.
pub fn change(file: &Path, before: Option<&Found>, now: Option<&Found>, room: &mut usize) -> Option<FileChange> {
    let change = match (before, now) {
        (before, now) if before == now => return None,
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        _ => Change::Changed,
    };
    let text = |found: Option<&Found>| found.map_or_else(|| Ok(Arc::from("")), |found| found.text.clone());
    let (lines, withheld) = match text(before).and_then(|before| Ok((before, text(now)?))) {
        Ok((before, now)) => differing_lines(&before, &now, room),
        Err(why) => (Vec::new(), Some(why)),
    };
    Some(FileChange { file: file.display().to_string(), change, lines, withheld })
}

/// The lines that differ and those around them, and why these are not all.
fn differing_lines(before: &str, now: &str, room: &mut usize) -> (Vec<ChangedLine>, Option<&'static str>) {
    let diff = TextDiff::configure().timeout(DIFF_MAX).diff_lines(before, now);
    let (old_lines, new_lines) = (shown_lines(before), shown_lines(now));
    let mut lines: Vec<ChangedLine> = Vec::new();
    for ops in diff.grouped_ops(LINES_AROUND) {
        if let Some(last) = lines.last() {
            lines.push(ChangedLine { change: Change::Gap, number: last.number + 1, text: String::new() });
        }
        for change in ops.iter().flat_map(|op| diff.iter_changes(op)) {
            let (kind, at, shown) = match change.tag() {
                ChangeTag::Equal => (Change::Same, change.new_index(), &new_lines),
                ChangeTag::Insert => (Change::Added, change.new_index(), &new_lines),
                ChangeTag::Delete => (Change::Removed, change.old_index(), &old_lines),
            };
            let at = at.unwrap_or_default();
            let text = shown.get(at).cloned().unwrap_or_default();
            let Some(left) = room.checked_sub(text.len() + LINE_OCTETS) else {
                return (lines, Some("more lines differ than are shown"));
            };
            *room = left;
            lines.push(ChangedLine { change: kind, number: at + 1, text });
        }
    }
    (lines, None)
}

/// The lines of a text, cut off at [`LINE_MAX`], with what is likely to be secret masked: the rest of a line that names a secret, what is
/// indented below it or in a section or long string that begins with it, and logins and queries of URLs. Rather too much than too little.
fn shown_lines(text: &str) -> Vec<String> {
    let mut hidden = None;
    text.lines().map(|line| shown_line(line, &mut hidden).chars().take(LINE_MAX).collect()).collect()
}

/// What the lines behind one that names a secret belong to it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    /// They are indented deeper than so many octets.
    Below(usize),
    /// The next one that begins with a bracket ends it (TOML, INI).
    Section,
    /// They are in a string that ends so.
    String(&'static str),
}

fn shown_line(line: &str, hidden: &mut Option<Hidden>) -> String {
    let indent = line.len() - line.trim_start().len();
    let before = *hidden;
    let is_over = match before {
        None => true,
        Some(Hidden::Below(than)) => {
            let word = line.trim();
            // A list of YAML may stand below its name.
            indent <= than && !word.is_empty() && !word.starts_with(CLOSING) && !word.starts_with("- ")
        }
        Some(Hidden::Section) => indent == 0 && line.starts_with('[') && line.trim_end().ends_with(']'),
        Some(Hidden::String(end)) => {
            if line.contains(end) {
                *hidden = Some(Hidden::Below(0));
            }
            false
        }
    };
    if !is_over {
        let opened = LONG_STRINGS.iter().find(|(begin, end)| is_left_open(line, begin, end));
        if let (Some((_, end)), Some(Hidden::Below(_))) = (opened, before) {
            *hidden = Some(Hidden::String(end));
        }
        return format!("{}***", &line[..indent]);
    }
    *hidden = None;
    let line = &without_secrets_of_urls(line);
    let Some(at) = behind_secret_name(line) else { return line.to_owned() };
    *hidden = Some(match LONG_STRINGS.iter().find(|(begin, end)| is_left_open(&line[at..], begin, end)) {
        Some((_, end)) => Hidden::String(end),
        None if line.trim_start().starts_with('[') && line.trim_end().ends_with(']') => Hidden::Section,
        None => Hidden::Below(indent),
    });
    if line[at..].trim().is_empty() { line.to_owned() } else { format!("{}***", &line[..at]) }
}

fn is_left_open(text: &str, begin: &str, end: &str) -> bool {
    text.find(begin).is_some_and(|at| !text[at + begin.len()..].contains(end))
}

/// Where the first name of a secret ends.
fn behind_secret_name(line: &str) -> Option<usize> {
    // Names are ASCII, so places are those of the line.
    let lower = line.to_ascii_lowercase();
    SECRET_NAMES.iter().filter_map(|name| Some(lower.find(name)? + name.len())).min()
}

/// Text without who logs in at the URLs in it, and without what stands behind their paths.
fn without_secrets_of_urls(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ')' | ']' | '}' | '>');
    let words = text.split_inclusive(ends);
    words.map(|word| if word.contains("://") { shown_word(word, ends) } else { word.to_owned() }).collect()
}

/// A word with a URL at its end, and what ends it.
fn shown_word(word: &str, ends: impl Fn(char) -> bool) -> String {
    let url = word.trim_end_matches(&ends);
    let begin = url.find("://").map_or(0, |at| {
        let scheme = url[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
        scheme.len()
    });
    format!("{}{}{}", &url[..begin], shown_url(&url[begin..]), &word[url.len()..])
}

/// Octets of a file that are kept, to be compared.
pub const TEXT_MAX: usize = 256 << 10;
/// Octets that a line takes beside its text.
const LINE_OCTETS: usize = 48;
/// Characters of a line.
const LINE_MAX: usize = 400;
/// Lines around one that differs.
const LINES_AROUND: usize = 3;
/// How long is looked for the shortest account of the differences.
const DIFF_MAX: Duration = Duration::from_millis(200);
/// Of the rights of a file (chmod).
const READABLE_BY_ALL: u32 = 0o004;
/// What ends what is indented below a name, and is not shown by itself.
const CLOSING: [char; 3] = ['}', ']', ')'];
/// How strings of several lines begin and end.
const LONG_STRINGS: [(&str, &str); 5] =
    [("[[", "]]"), ("[=[", "]=]"), ("[==[", "]==]"), ("\"\"\"", "\"\"\""), ("'''", "'''")];
/// What names of secrets have in them, in small letters.
const SECRET_NAMES: [&str; 15] = [
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "private",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "key_data",
    "authorization",
    "bearer",
    "cookie",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
        assert_eq!(change(file, Some(&before), Some(&before.clone()), &mut ROOM.clone()), None);
        let told_of = |before: Option<&Found>, now: Option<&Found>| {
            let change = change(file, before, now, &mut ROOM.clone()).expect("a change");
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
                let change = change(Path::new("a.lua"), Some(before), Some(now), &mut ROOM.clone()).expect("a change");
                assert_eq!((change.lines, change.withheld), (Vec::new(), Some(why)));
            }
            assert_eq!(closed.kept(), 0);
        }
        assert_eq!(Found::look(&dir.path().join("gone"), TEXT_MAX).text, Err("it cannot be read"));
    }

    #[test]
    fn no_more_is_told_than_there_is_room_for() {
        let dir = tempfile::tempdir().expect("scratch");
        let many = found(dir.path(), &"xx\n".repeat(10), 0o644);
        let mut room = 3 * (LINE_OCTETS + 2) + 1;
        let change = change(Path::new("a.lua"), None, Some(&many), &mut room).expect("a change");
        assert_eq!((change.lines.len(), change.withheld), (3, Some("more lines differ than are shown")));
        assert_eq!(room, 1, "the rest is for others");
    }

    #[test]
    fn what_is_likely_to_be_secret_is_masked() {
        for (text, shown) in [
            ("listen = '0.0.0.0:25',\nmax = 100", "listen = '0.0.0.0:25',\nmax = 100"),
            ("port = 25, password = 'tiger', x = 1", "port = 25, pass***"),
            ("password: tiger  # don't share", "pass***"),
            ("local t = { password = [[tiger]] }", "local t = { pass***"),
            ("{\"token\": 12345, \"a\": \"b\"}", "{\"token***"),
            ("dsn = 'host=db password=tiger'", "dsn = 'host=db pass***"),
            ("  ['X-Api-Key'] = 'abc'", "  ['X-Api-Key***"),
            (
                "local passwords = {\n  scott = 'tiger',\n  joe = 'lion',\n}\nnext = 1",
                "local pass***\n  ***\n  ***\n***\nnext = 1",
            ),
            ("[secrets]\njoe = 'tiger'\n\n[next]\na = 1", "[secret***\n***\n***\n[next]\na = 1"),
            ("password: |\n  tiger\nnext: 1", "pass***\n  ***\nnext: 1"),
            ("PASSWORD = [[\ntiger\n]]\nnext = 1", "PASS***\n***\n***\nnext = 1"),
            ("token = \"\"\"\ntiger\n\"\"\"\nnext = 1", "token***\n***\n***\nnext = 1"),
            ("node = 'redis://joe:tiger@r.test/0', x = 1", "node = 'redis://***@r.test/0', x = 1"),
            ("-- see https://joe:tiger@r.test/0 there", "-- see https://***@r.test/0 there"),
            ("url = \"https://h.test/?key=abc\" -- x", "url = \"https://h.test/?***\" -- x"),
            ("url: redis://joe:tiger@h  # don't", "url: redis://***@h  # don't"),
            ("url: redis://joe:tigerpass9@h", "url: redis://***@h"),
            ("url: https://joe:tiger@h/token", "url: https://***@h/token"),
            ("url: https://joe:tiger@h/r/https://x", "url: https://***@h/r/https://x"),
            ("passwords:\n- tiger\n- lion\nnext: 1", "pass***\n***\n***\nnext: 1"),
            (
                "local t = { secrets = {\n  [[tiger\nlion\n]],\n}}\nnext = 1",
                "local t = { secret***\n  ***\n***\n***\n***\nnext = 1",
            ),
            ("ünïcode = 'ä', secret = 'ß'", "ünïcode = 'ä', secret***"),
        ] {
            assert_eq!(shown_lines(text).join("\n"), shown);
        }
        assert_eq!(shown_lines(&"x".repeat(LINE_MAX + 1))[0].len(), LINE_MAX);
    }

    const ROOM: usize = 64 << 10;
}
