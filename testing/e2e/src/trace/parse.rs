//! strace's text (`-f -yy`, with or without times) to events.
//!
//! A call that other threads interrupt stands on two lines: it begins with the first and ends with the second. Calls
//! that failed had no effect and are left out, as are calls on what is neither a file nor a TCP socket.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A system call that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Line of its entry.
    pub begin: usize,
    /// Line of its return.
    pub end: usize,
    /// What it did.
    pub call: Call,
}

/// What a call did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Wrote to a file; the text is as strace shows it, escaped.
    Write { file: PathBuf, text: String },
    /// Made a file or directory lasting (fsync, fdatasync).
    Sync { file: PathBuf },
    /// Opened with O_CREAT.
    Create { path: PathBuf },
    /// Made a directory, or a second name.
    Name { path: PathBuf },
    /// Renamed.
    Rename { from: PathBuf, to: PathBuf },
    /// Took a name away.
    Unlink { path: PathBuf },
    /// Wrote to a TCP socket, named as strace names it: `127.0.0.1:25->127.0.0.1:40000`.
    Send { socket: String, text: String },
}

/// The events of a trace, in the order of their ends.
pub fn parse(trace: &str) -> Vec<Event> {
    let mut open: HashMap<&str, (usize, &str)> = HashMap::new();
    let mut events = Vec::new();
    for (line, text) in trace.lines().enumerate() {
        let Some((pid, rest)) = text.trim_start().split_once(' ') else { continue };
        let call = rest.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
        if let Some(begun) = call.strip_suffix("<unfinished ...>") {
            open.insert(pid, (line, begun));
        } else if let Some(resumed) = call.strip_prefix("<... ") {
            let Some((begin, begun)) = open.remove(pid) else { continue };
            let Some((_, rest)) = resumed.split_once("resumed>") else { continue };
            events.extend(event(begin, line, &format!("{begun}{rest}")));
        } else {
            events.extend(event(line, line, call));
        }
    }
    events
}

fn event(begin: usize, end: usize, text: &str) -> Option<Event> {
    let (head, result) = text.rsplit_once(" = ")?;
    if result.starts_with('-') || result.starts_with('?') {
        return None;
    }
    let (name, arguments) = head.split_once('(')?;
    let words = Words::of(arguments);
    let call = match name {
        "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" | "sendto" | "sendmsg" | "sendmmsg" => {
            let text = words.strings.concat();
            match words.places.first()? {
                Place::Socket(socket) => Call::Send { socket: socket.clone(), text },
                Place::Path(file) => Call::Write { file: file.clone(), text },
            }
        }
        "fsync" | "fdatasync" => Call::Sync { file: words.path(0)? },
        "open" | "openat" | "creat" => {
            let creates = name == "creat" || arguments.contains("O_CREAT") || arguments.contains("O_TMPFILE");
            let Place::Path(path) = Words::of(result).places.into_iter().next()? else { return None };
            creates.then_some(Call::Create { path })?
        }
        "mkdir" | "mkdirat" => Call::Name { path: words.named(0)? },
        "link" | "linkat" => Call::Name { path: words.named(1)? },
        "rename" | "renameat" | "renameat2" => Call::Rename { from: words.named(0)?, to: words.named(1)? },
        "unlink" | "unlinkat" => Call::Unlink { path: words.named(0)? },
        _ => return None,
    };
    Some(Event { begin, end, call })
}

/// What stands among a call's arguments.
#[derive(Default)]
struct Words {
    /// Quoted texts, still escaped.
    strings: Vec<String>,
    /// What file numbers stand for.
    places: Vec<Place>,
}

enum Place {
    Path(PathBuf),
    Socket(String),
}

impl Words {
    fn of(text: &str) -> Words {
        let mut words = Words::default();
        let mut rest = text;
        while let Some(at) = rest.find(['"', '<']) {
            let (_, tail) = rest.split_at(at + 1);
            if rest.as_bytes()[at] == b'"' {
                let end = closing_quote(tail);
                words.strings.push(tail[..end].to_owned());
                rest = tail.get(end + 1..).unwrap_or_default();
            } else if let Some(socket) = tail.strip_prefix("TCP:[").or_else(|| tail.strip_prefix("TCPv6:[")) {
                let end = socket.find("]>").unwrap_or(socket.len());
                words.places.push(Place::Socket(socket[..end].to_owned()));
                rest = socket.get(end + 2..).unwrap_or_default();
            } else {
                let end = tail.find('>').unwrap_or(tail.len());
                if tail.starts_with('/') {
                    words.places.push(Place::Path(PathBuf::from(&tail[..end])));
                }
                rest = tail.get(end + 1..).unwrap_or_default();
            }
        }
        words
    }

    fn path(&self, number: usize) -> Option<PathBuf> {
        match self.places.get(number)? {
            Place::Path(path) => Some(path.clone()),
            Place::Socket(_) => None,
        }
    }

    /// The `number`th quoted path, below the directory given with it when it is relative.
    fn named(&self, number: usize) -> Option<PathBuf> {
        let name = Path::new(self.strings.get(number)?);
        Some(self.path(number).map_or_else(|| name.to_owned(), |folder| folder.join(name)))
    }
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, octet) in text.bytes().enumerate() {
        match octet {
            b'"' if !escaped => return at,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_kind_are_read() {
        let trace = r#"
1 5.1 openat(AT_FDCWD</t>, "/s/spare", O_WRONLY|O_CREAT|O_DIRECT, 0600) = 16</s/spare>
1 5.2 openat(AT_FDCWD</t>, "/s/x", O_RDONLY) = 17</s/x>
2 5.3 pwrite64(16</s/spare>, "a\"b <c> MARK\0", 4096, 0 <unfinished ...>
1 5.4 fsync(13</s>) = 0
2 5.5 <... pwrite64 resumed>) = 4096
1 fdatasync(16</s/spare>) = -1 EIO (Input/output error)
1 rename("/s/spare", "/s/seg") = 0
1 renameat2(5</s>, "a", 6</t>, "b", RENAME_NOREPLACE) = 0
1 writev(15<TCP:[127.0.0.1:25->127.0.0.1:4000]>, [{iov_base="250 ", iov_len=4}, {iov_base="OK\r\n", iov_len=4}], 2) = 8
1 write(2<pipe:[33]>, "hello", 5) = 5
1 mkdirat(AT_FDCWD</t>, "/s/d", 0700) = 0
1 unlink("/s/seg") = 0
"#;
        let path = PathBuf::from;
        let expected = [
            (1, 1, Call::Create { path: path("/s/spare") }),
            (4, 4, Call::Sync { file: path("/s") }),
            (3, 5, Call::Write { file: path("/s/spare"), text: r#"a\"b <c> MARK\0"#.to_owned() }),
            (7, 7, Call::Rename { from: path("/s/spare"), to: path("/s/seg") }),
            (8, 8, Call::Rename { from: path("/s/a"), to: path("/t/b") }),
            (9, 9, Call::Send { socket: "127.0.0.1:25->127.0.0.1:4000".into(), text: r"250 OK\r\n".into() }),
            (11, 11, Call::Name { path: path("/s/d") }),
            (12, 12, Call::Unlink { path: path("/s/seg") }),
        ];
        assert_eq!(parse(trace), expected.map(|(begin, end, call)| Event { begin, end, call }));
    }
}
