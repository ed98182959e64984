//! A Maildir that a server delivers into, read as a sink's ledger is. In: a folder. Out: arrivals, each judged by the checksum
//! it carries.
//!
//! A file that was read goes to `cur`, so that `new` is as short as that of somebody who reads his mail. It is not removed: ext4
//! without a journal looks for a new file's inode behind all that were freed in the last seconds, and that would be
//! measured. When it arrived is when it was moved to `new`, which the file system notes.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::ledger::Arrival;

/// A Maildir.
pub struct Mailbox {
    new: PathBuf,
    read: PathBuf,
}

impl Mailbox {
    /// That of the Maildir at `folder`, which need not be there yet.
    pub fn of(folder: &Path) -> Mailbox {
        Mailbox { new: folder.join("new"), read: folder.join("cur") }
    }

    /// Hands out what came since the last call.
    ///
    /// # Errors
    /// A file cannot be read or moved.
    pub fn read(&mut self, mut take: impl FnMut(Arrival)) -> anyhow::Result<()> {
        let entries = match fs::read_dir(&self.new) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries.with_context(|| format!("cannot read {}", self.new.display()))?,
        };
        fs::create_dir_all(&self.read).with_context(|| self.read.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            let of_it = || path.display().to_string();
            let text = fs::read(&path).with_context(of_it)?;
            let facts = fs::metadata(&path).with_context(of_it)?;
            let at_us = facts.ctime() * 1_000_000 + facts.ctime_nsec() / 1000;
            let (id, intact) = judged(&String::from_utf8_lossy(&text));
            take(Arrival { id: &id, intact, recipients: "-", at_us: u64::try_from(at_us).unwrap_or_default() });
            fs::rename(&path, self.read.join(entry.file_name())).with_context(of_it)?;
        }
        Ok(())
    }
}

/// The id of a message, and whether its body is the one its checksum is of. Lines end in LF here, and in CRLF when they were sent.
fn judged(text: &str) -> (String, bool) {
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.split_once("\n\n").unwrap_or((&text, ""));
    let field = |name: &str| {
        let line =
            head.lines().find(|line| line.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        line.map(|line| line[name.len()..].trim())
    };
    let stated = field("X-Postrider-Check:").and_then(|check| u32::from_str_radix(check, 16).ok());
    let found = crc32fast::hash(body.replace('\n', "\r\n").as_bytes());
    (field("X-Postrider-Id:").unwrap_or("-").to_owned(), stated == Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_judged_once_and_kept() {
        let folder = tempfile::tempdir().expect("scratch");
        let mut mailbox = Mailbox::of(folder.path());
        let mut seen = Vec::new();
        mailbox.read(|_| panic!("nothing is there")).expect("no folder yet");
        fs::create_dir(folder.path().join("new")).expect("made");
        let check = crc32fast::hash(b"one\r\n\r\ntwo\r\n");
        let text = format!("Return-Path: <a@b>\nX-Postrider-Id: m1\nX-Postrider-Check: {check:08x}\n\none\n\ntwo\n");
        fs::write(folder.path().join("new/1"), &text).expect("written");
        fs::write(folder.path().join("new/2"), text.replace("two", "tow")).expect("written");
        mailbox.read(|arrival| seen.push((arrival.id.to_owned(), arrival.intact, arrival.at_us > 0))).expect("read");
        seen.sort();
        assert_eq!(seen, [("m1".to_owned(), false, true), ("m1".to_owned(), true, true)]);
        mailbox.read(|_| panic!("they were read")).expect("read");
        assert_eq!(fs::read_dir(folder.path().join("cur")).expect("a folder").count(), 2);
    }
}
