//! The files of a period: what was counted, and which reports were handed over.
//!
//! `KIND-BEGIN-LENGTH.jsonl` has a line for each row that was counted since the last one, and how often:
//!
//! ```text
//! {"d":"a.test","p":{...},"r":{...},"n":3}
//! ```
//!
//! `d` is the domain, `p` what it said of itself (of several lines the last counts), `r` the row; without it, `n` observations had
//! no room for theirs. Lines add up. `KIND-BEGIN-LENGTH.sent` has a line `["a.test","r@a.test"]` for each report and address that
//! is done with, whatever came of it. Both are synced line by line, or second by second; a line that broke off in a crash is
//! no line, and is cut off before more is written. `KIND.lock` is locked by the program that counts. Fails with `io::Error`.

use crate::kind::Kind;
use reports::{Account, Bounds, Period, Tally};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// One line.
#[derive(Serialize, Deserialize)]
struct Line<P, R> {
    d: String,
    p: P,
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    r: Option<R>,
    n: u64,
}

/// The same, to be written.
#[derive(Serialize)]
struct LineRef<'a, P, R> {
    d: &'a str,
    p: &'a P,
    #[serde(skip_serializing_if = "Option::is_none")]
    r: Option<&'a R>,
    n: u64,
}

/// A period's count that is written to.
pub(crate) struct Journal<K> {
    path: PathBuf,
    file: File,
    octets: u64,
    /// As it was when it held every row once.
    compact_octets: u64,
    kind: PhantomData<K>,
}

impl<K: Kind> Journal<K> {
    /// Opens that of a period, and adds what it has to `tally`.
    pub(crate) fn open(dir: &Path, period: Period, tally: &mut Tally<K::Policy, K::Row>) -> io::Result<Journal<K>> {
        let path = dir.join(name::<K>(period, COUNTED));
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        let octets = replay::<K>(&mut file, tally)?;
        file.set_len(octets)?;
        sync_dir(dir)?;
        Ok(Journal { path, file, octets, compact_octets: octets, kind: PhantomData })
    }

    /// Writes what was counted, and waits for the disk.
    pub(crate) fn append<'a>(
        &mut self,
        lines: impl Iterator<Item = (&'a str, &'a K::Policy, Option<&'a K::Row>, u64)>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        for (d, p, r, n) in lines {
            serde_json::to_writer(&mut text, &LineRef { d, p, r, n })?;
            text.push(b'\n');
        }
        write(&mut self.file, &mut self.octets, &text)
    }

    /// True when much of it could be said shorter.
    pub(crate) fn is_long(&self) -> bool {
        self.octets > COMPACT_OCTETS_MIN && self.octets > self.compact_octets.saturating_mul(2)
    }

    /// Writes it anew: each row once. After a crash it is this file or the one before.
    pub(crate) fn compact(&mut self, tally: &Tally<K::Policy, K::Row>) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut out = BufWriter::new(File::create(&new)?);
        for (d, account) in tally.accounts() {
            let rows = account.rows.iter().map(|(row, count)| (Some(row), *count));
            let over = (account.over > 0).then_some((None, account.over));
            for (r, n) in rows.chain(over) {
                serde_json::to_writer(&mut out, &LineRef { d, p: &account.policy, r, n })?;
                out.write_all(b"\n")?;
            }
        }
        out.into_inner()?.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.path.parent().map_or(Ok(()), sync_dir)?;
        self.file = OpenOptions::new().read(true).append(true).open(&self.path)?;
        self.octets = self.file.seek(SeekFrom::End(0))?;
        self.compact_octets = self.octets;
        Ok(())
    }
}

/// What became of a period's reports.
pub(crate) struct Sent {
    file: File,
    octets: u64,
    done: HashSet<(String, String)>,
}

impl Sent {
    /// Opens the list of a period.
    pub(crate) fn open<K: Kind>(dir: &Path, period: Period) -> io::Result<Sent> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(dir.join(name::<K>(period, SENT)))?;
        let mut done = HashSet::new();
        let octets = lines(&mut file, |line| _ = serde_json::from_slice(line).map(|pair| done.insert(pair)))?;
        file.set_len(octets)?;
        sync_dir(dir)?;
        Ok(Sent { file, octets, done })
    }

    /// True when a report needs nothing more.
    pub(crate) fn has(&self, domain: &str, target: &str) -> bool {
        self.done.contains(&(domain.to_owned(), target.to_owned()))
    }

    /// Notes that it needs nothing more, and waits for the disk. It is so whatever becomes of the note.
    pub(crate) fn add(&mut self, domain: &str, target: &str) -> io::Result<()> {
        let pair = (domain.to_owned(), target.to_owned());
        let mut line = serde_json::to_vec(&pair)?;
        line.push(b'\n');
        self.done.insert(pair);
        write(&mut self.file, &mut self.octets, &line)
    }
}

/// Appends to a file of which so many octets count, and waits for the disk. What a failed write left behind them is cut off first,
/// so that no line is there twice and the next one is one.
fn write(file: &mut File, octets: &mut u64, text: &[u8]) -> io::Result<()> {
    if file.metadata()?.len() != *octets {
        file.set_len(*octets)?;
    }
    file.write_all(text)?;
    file.sync_data()?;
    *octets += text.len() as u64;
    Ok(())
}

/// Takes the lock on the files of a kind; it is held until what is returned is dropped, or the program dies. Nothing is returned
/// where the disk makes no file: mail is served all the same.
///
/// # Errors
/// Another program has it.
pub(crate) fn lock<K: Kind>(dir: &Path) -> io::Result<Option<File>> {
    let path = dir.join(format!("{}.lock", K::NAME));
    let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
    let locked = file.map_err(TryLockError::Error).and_then(|file| file.try_lock().map(|()| file));
    match locked {
        Ok(file) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => {
            Err(io::Error::other(format!("another program counts here: it has locked `{}`", path.display())))
        }
        Err(TryLockError::Error(error)) => {
            tracing::error!("{} cannot be locked: {error}", path.display());
            Ok(None)
        }
    }
}

/// The periods of which there is a count, the oldest first.
pub(crate) fn periods<K: Kind>(dir: &Path) -> io::Result<Vec<Period>> {
    let (mut found, mut lists) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        found.extend(period_of::<K>(name, COUNTED));
        lists.extend([SENT, NEW].into_iter().filter_map(|ending| period_of::<K>(name, ending)));
    }
    // A crash while they are removed leaves a list without its count.
    for period in lists.into_iter().filter(|period| !found.contains(period)) {
        remove::<K>(dir, period)?;
    }
    found.sort();
    Ok(found)
}

/// What was counted in a period, whatever the bounds were.
pub(crate) fn load<K: Kind>(dir: &Path, period: Period) -> io::Result<Accounts<K>> {
    let most = usize::MAX;
    let unbounded =
        Bounds { domains_max: most, domains_per_organisation_max: most, rows_max: most, rows_per_domain_max: most };
    let mut tally = Tally::new(unbounded);
    let mut file = File::open(dir.join(name::<K>(period, COUNTED)))?;
    replay::<K>(&mut file, &mut tally)?;
    Ok(tally.take())
}

/// Domains and what was counted of them.
pub(crate) type Accounts<K> = HashMap<String, Account<<K as Kind>::Policy, <K as Kind>::Row>>;

/// Removes the files of a period. The count goes first: without it nothing is sent.
pub(crate) fn remove<K: Kind>(dir: &Path, period: Period) -> io::Result<()> {
    for ending in [COUNTED, NEW, SENT] {
        match fs::remove_file(dir.join(name::<K>(period, ending))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => sync_dir(dir)?,
        }
    }
    Ok(())
}

fn name<K: Kind>(period: Period, ending: &str) -> String {
    format!("{}-{}-{}{ending}", K::NAME, period.begin_secs(), period.length_secs())
}

fn period_of<K: Kind>(name: &str, ending: &str) -> Option<Period> {
    let numbers = name.strip_prefix(K::NAME)?.strip_prefix('-')?.strip_suffix(ending)?;
    let (begin, length) = numbers.split_once('-')?;
    let (begin, length) = (begin.parse::<i64>().ok()?, length.parse::<u32>().ok()?);
    Some(Period::at(begin, length)).filter(|period| (period.begin_secs(), period.length_secs()) == (begin, length))
}

/// Adds the lines of a file; where the last whole one ends.
fn replay<K: Kind>(file: &mut File, tally: &mut Tally<K::Policy, K::Row>) -> io::Result<u64> {
    let mut unread = 0u64;
    let octets = lines(file, |line| match serde_json::from_slice::<Line<K::Policy, K::Row>>(line) {
        Ok(Line { d, p, r, n }) => _ = tally.add(&d, &p, r, n),
        Err(_) => unread += 1,
    })?;
    if unread > 0 {
        tracing::error!("{unread} lines of what was counted for {} reports cannot be read and are left out", K::NAME);
    }
    Ok(octets)
}

/// Each whole line; where the last one ends.
fn lines(file: &mut File, mut each: impl FnMut(&[u8])) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(file);
    let (mut line, mut octets) = (Vec::new(), 0);
    loop {
        line.clear();
        let read = (&mut reader).take(LINE_OCTETS_MAX).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(octets);
        }
        match line.strip_suffix(b"\n") {
            Some(whole) => each(whole),
            // The rest of the file is one line that broke off, or none of ours.
            None => return Ok(octets),
        }
        octets += read as u64;
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Endings of names.
const COUNTED: &str = ".jsonl";
const SENT: &str = ".sent";
/// The count while it is written anew.
const NEW: &str = ".new";
/// Below this nothing is written anew.
const COMPACT_OCTETS_MIN: u64 = 8 << 20;
/// Octets of a line: a row has a dozen bounded texts.
const LINE_OCTETS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Tls;
    use crate::kind::tests::{room, row};
    use reports::TlsRow;

    #[test]
    fn what_was_counted_is_there_after_a_crash_but_for_a_line_that_broke_off() {
        let dir = tempfile::tempdir().expect("scratch");
        let day = Period::at(0, 86_400);
        let mut tally = Tally::new(room(100));
        let mut journal: Journal<Tls> = Journal::open(dir.path(), day, &mut tally).expect("opened");
        let (a, b) = (row("a.test"), row("b.test"));
        journal.append([("a.test", &(), Some(&a), 2), ("a.test", &(), None, 7)].into_iter()).expect("written");
        journal.append([("a.test", &(), Some(&a), 1), ("b.test", &(), Some(&b), 1)].into_iter()).expect("written");
        let path = dir.path().join("tls-0-86400.jsonl");
        let mut torn = OpenOptions::new().append(true).open(&path).expect("opened");
        torn.write_all(b"{\"d\":\"a.test\",\"p\":nu").expect("written");
        let mut tally = Tally::new(room(100));
        let mut journal: Journal<Tls> = Journal::open(dir.path(), day, &mut tally).expect("opened");
        let shown = |tally: &Tally<(), TlsRow>| {
            let of =
                |domain: &str| tally.accounts().get(domain).map(|account| (account.rows[&row(domain)], account.over));
            (of("a.test"), of("b.test"))
        };
        assert_eq!(shown(&tally), (Some((3, 7)), Some((1, 0))));
        tally.add("b.test", &(), Some(b.clone()), 4);
        journal.append([("b.test", &(), Some(&b), 4)].into_iter()).expect("written behind what was cut off");
        assert_eq!(periods::<Tls>(dir.path()).expect("listed"), [day]);
        journal.compact(&tally).expect("written anew");
        journal.append([("b.test", &(), Some(&b), 1)].into_iter()).expect("written");
        let loaded = load::<Tls>(dir.path(), day).expect("read");
        assert_eq!((loaded["a.test"].over, loaded["b.test"].rows[&b]), (7, 6));
        assert_eq!(fs::read_to_string(&path).expect("text").lines().count(), 4, "each row once, and the last");
        remove::<Tls>(dir.path(), day).expect("removed");
        assert!(periods::<Tls>(dir.path()).expect("listed").is_empty());
    }

    #[test]
    fn what_a_failed_write_left_is_cut_off_before_the_next() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("list");
        let mut file = OpenOptions::new().append(true).create(true).open(&path).expect("made");
        let mut octets = 0;
        write(&mut file, &mut octets, b"one\n").expect("written");
        file.write_all(b"two\nthr").expect("as a sync that fails leaves it");
        write(&mut file, &mut octets, b"two\n").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"one\ntwo\n");
    }

    #[test]
    fn what_a_crash_left_of_a_count_that_is_over_goes() {
        let dir = tempfile::tempdir().expect("scratch");
        for (begin, ending) in [(86_400, NEW), (2 * 86_400, SENT)] {
            fs::write(dir.path().join(name::<Tls>(Period::at(begin, 86_400), ending)), "").expect("written");
        }
        assert_eq!(periods::<Tls>(dir.path()).expect("read"), []);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0);
    }

    #[test]
    fn what_was_sent_is_remembered() {
        let dir = tempfile::tempdir().expect("scratch");
        let day = Period::at(0, 60);
        let mut sent = Sent::open::<Tls>(dir.path(), day).expect("opened");
        sent.add("a.test", "r@a.test").expect("noted");
        let mut torn = OpenOptions::new().append(true).open(dir.path().join("tls-0-60.sent")).expect("opened");
        torn.write_all(b"[\"b.test\"").expect("written");
        let mut again = Sent::open::<Tls>(dir.path(), day).expect("opened");
        assert!(
            again.has("a.test", "r@a.test") && !again.has("a.test", "x@a.test") && !again.has("b.test", "r@a.test")
        );
        again.add("b.test", "r@a.test").expect("noted");
        assert!(Sent::open::<Tls>(dir.path(), day).expect("opened").has("b.test", "r@a.test"));
        assert!(periods::<Tls>(dir.path()).expect("listed").is_empty(), "a list alone is no count");
        assert!(!dir.path().join("tls-0-60.sent").exists(), "nobody needs it any more");
        for other in ["dmarc-0-60.jsonl", "tls-1-60.jsonl", "tls-0-60.new", "tls-x-60.jsonl", "tls-0.jsonl"] {
            assert_eq!(period_of::<Tls>(other, COUNTED), None, "{other}");
        }
    }

    /// Else a full disk would have it sent again and again.
    #[test]
    fn what_was_sent_was_sent_though_the_note_cannot_be_written() {
        let dir = tempfile::tempdir().expect("scratch");
        let day = Period::at(0, 86_400);
        let mut sent = Sent::open::<Tls>(dir.path(), day).expect("opened");
        sent.file = File::open("/dev/null").expect("a file that is not to be written");
        sent.add("a.test", "r@a.test").expect_err("not written");
        assert!(sent.has("a.test", "r@a.test") && !sent.has("a.test", "s@a.test"));
    }
}
