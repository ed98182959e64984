//! The judgement: is what a marker stands for on disk, content and name, before a given line of the trace?
//!
//! Strict: only a sync of the very file counts for its content, begun after the write had returned and returned before
//! the line; only a sync of the very directory counts for a name in it, be it made by create, link, mkdir or rename,
//! and every directory above that was made in this trace needs the same. A file that has had its name since before the
//! trace needs no sync of names. O_DIRECT excuses nothing: it says nothing about the device's own cache.

use crate::trace::{Call, Event};
use std::path::{Path, PathBuf};

/// Why a message was not on disk in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// No write before the line has the marker.
    NotWritten,
    /// The file was not synced between the write and the line.
    NotSynced { file: PathBuf },
    /// The directory of a new name was not synced between the naming and the line.
    NameNotSynced { name: PathBuf },
}

/// Checks that content with `marker` lasts before line `before`. Of several copies one that lasts is enough; else the
/// violation of the last one is told.
///
/// # Errors
/// What is missing.
pub fn check(events: &[Event], marker: &str, before: usize) -> Result<(), Violation> {
    let past: Vec<&Event> = events.iter().filter(|event| event.end < before).collect();
    let mut verdict = Err(Violation::NotWritten);
    for write in &past {
        let Call::Write { file, text } = &write.call else { continue };
        if text.contains(marker) {
            verdict = lasts(&past, write.end, file);
            if verdict.is_ok() {
                break;
            }
        }
    }
    verdict
}

/// The lines on which the server writes its replies to final dots, in order, on the socket of this peer.
///
/// It is the reply behind each 354.
pub fn final_replies(events: &[Event], peer: &str) -> Vec<(usize, String)> {
    let mut replies = Vec::new();
    let mut awaited = false;
    let behind = format!("->{peer}");
    for event in events {
        let Call::Send { socket, text } = &event.call else { continue };
        if !socket.ends_with(&behind) {
            continue;
        }
        if awaited {
            replies.push((event.begin, text.clone()));
        }
        awaited = text.starts_with("354") || text.contains(r"\r\n354");
    }
    replies
}

fn lasts(past: &[&Event], written: usize, file: &Path) -> Result<(), Violation> {
    // The file may have been renamed since: its names, each with the line from which on it holds.
    let mut names = vec![(written, file.to_owned())];
    for event in past.iter().filter(|event| event.begin > written) {
        if let Call::Rename { from, to } = &event.call
            && names.last().is_some_and(|(_, name)| name == from)
        {
            names.push((event.begin, to.clone()));
        }
    }
    let is_sync_of = |event: &Event, path: &Path| matches!(&event.call, Call::Sync { file } if file == path);
    let synced = |path: &Path, since: usize| past.iter().any(|e| e.begin > since && is_sync_of(e, path));
    if !names.iter().any(|(since, name)| synced(name, *since)) {
        return Err(Violation::NotSynced { file: file.to_owned() });
    }
    let (_, name) = names.last().expect("it has at least the name it was written under");
    for name in name.ancestors() {
        let Some(made) = named_at(past, name) else { continue };
        let folder = name.parent().unwrap_or(Path::new("/"));
        if !synced(folder, made) {
            return Err(Violation::NameNotSynced { name: name.to_owned() });
        }
    }
    Ok(())
}

/// The end of the call that gave something the name it has now; `None` when it had it before the trace began.
fn named_at(past: &[&Event], name: &Path) -> Option<usize> {
    let mut named = None;
    for event in past {
        match &event.call {
            // Opened with O_CREAT once more: the name is no newer.
            Call::Create { path } if path == name => named = named.or(Some(event.end)),
            Call::Name { path } if path == name => named = Some(event.end),
            Call::Rename { to, .. } if to == name => named = Some(event.end),
            Call::Rename { from: path, .. } | Call::Unlink { path } if path == name => named = None,
            _ => {}
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::parse;

    /// A segment that was there before: no names.
    const RECYCLED: &str = r#"
1 pwrite64(16</s/seg-1>, "MARK", 4, 0) = 4
1 fdatasync(16</s/seg-1>) = 0
"#;
    /// A file made, filled, synced and renamed, its directory made as well.
    const RENAMED: &str = r#"
1 mkdir("/s/d", 0700) = 0
1 fsync(3</s>) = 0
1 openat(AT_FDCWD</>, "/s/d/new", O_WRONLY|O_CREAT, 0600) = 16</s/d/new>
1 write(16</s/d/new>, "MARK", 4) = 4
1 fdatasync(16</s/d/new>) = 0
1 rename("/s/d/new", "/s/d/there") = 0
1 fsync(4</s/d>) = 0
"#;

    /// The verdict on a trace without the lines that begin with `missing`, and with `reply` sent at its end.
    fn verdict(trace: &str, missing: &str) -> Result<(), Violation> {
        let kept: Vec<&str> = trace.lines().filter(|line| missing.is_empty() || !line.starts_with(missing)).collect();
        check(&parse(&kept.join("\n")), "MARK", kept.len())
    }

    #[test]
    fn what_is_synced_in_time_lasts() {
        assert_eq!(verdict(RECYCLED, ""), Ok(()));
        assert_eq!(verdict(RENAMED, ""), Ok(()));
        // Synced under its last name only.
        let late = RENAMED.replace("1 fdatasync(16</s/d/new>) = 0\n", "") + "1 fsync(16</s/d/there>) = 0\n";
        assert_eq!(verdict(&late, ""), Ok(()));
    }

    #[test]
    fn each_missing_step_is_found() {
        let file = PathBuf::from("/s/seg-1");
        assert_eq!(verdict(RECYCLED, "1 pwrite64"), Err(Violation::NotWritten));
        assert_eq!(verdict(RECYCLED, "1 fdatasync"), Err(Violation::NotSynced { file }));
        let file = PathBuf::from("/s/d/new");
        assert_eq!(verdict(RENAMED, "1 fdatasync"), Err(Violation::NotSynced { file }));
        let name = PathBuf::from("/s/d/there");
        assert_eq!(verdict(RENAMED, "1 fsync(4"), Err(Violation::NameNotSynced { name }));
        let name = PathBuf::from("/s/d");
        assert_eq!(verdict(RENAMED, "1 fsync(3"), Err(Violation::NameNotSynced { name }));
        let name = PathBuf::from("/s/d/new");
        let unsynced_name: String = RENAMED.lines().take(6).map(|line| format!("{line}\n")).collect();
        assert_eq!(verdict(&unsynced_name, ""), Err(Violation::NameNotSynced { name }));
    }

    #[test]
    fn a_sync_of_something_else_or_at_another_time_does_not_count() {
        let not_synced = || Err(Violation::NotSynced { file: PathBuf::from("/s/seg-1") });
        assert_eq!(verdict(&RECYCLED.replace("fdatasync(16</s/seg-1>", "fdatasync(17</s/seg-2>"), ""), not_synced());
        assert_eq!(
            verdict(&RECYCLED.replace("fdatasync(16</s/seg-1>) = 0", "fdatasync(16</s/seg-1>) = -1 EIO"), ""),
            not_synced()
        );
        assert_eq!(verdict(&RECYCLED.replace("fdatasync", "sync_file_range"), ""), not_synced());
        // Begun before the write had returned.
        let early = r#"
2 fdatasync(16</s/seg-1> <unfinished ...>
1 pwrite64(16</s/seg-1>, "MARK", 4, 0) = 4
2 <... fdatasync resumed>) = 0
"#;
        assert_eq!(verdict(early, ""), not_synced());
        // Returned after the reply was written.
        let lines = parse(RECYCLED);
        assert_eq!(check(&lines, "MARK", 2), not_synced());
        let before_the_rename = RENAMED.replace("1 rename", "1 fsync(4</s/d>) = 0\n1 rename");
        let name = PathBuf::from("/s/d/there");
        assert_eq!(
            verdict(&before_the_rename.replace("there\") = 0\n1 fsync(4</s/d>) = 0", "there\") = 0"), ""),
            Err(Violation::NameNotSynced { name })
        );
    }

    #[test]
    fn the_reply_behind_a_354_is_the_one_that_counts() {
        let trace = r#"
1 sendto(15<TCP:[127.0.0.1:25->127.0.0.1:4000]>, "250 OK\r\n354 go\r\n", 16, 0, NULL, 0) = 16
1 sendto(16<TCP:[127.0.0.1:25->127.0.0.1:4001]>, "250 OK other\r\n", 14, 0, NULL, 0) = 14
1 sendto(15<TCP:[127.0.0.1:25->127.0.0.1:4000]>, "250 OK ids=1\r\n", 14, 0, NULL, 0) = 14
1 sendto(15<TCP:[127.0.0.1:25->127.0.0.1:4000]>, "250 OK\r\n", 8, 0, NULL, 0) = 8
"#;
        assert_eq!(final_replies(&parse(trace), "127.0.0.1:4000"), [(3, r"250 OK ids=1\r\n".to_owned())]);
    }
}
