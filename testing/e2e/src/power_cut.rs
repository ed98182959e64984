//! Power cuts played through outside the process: what a disk may have after one, out of what a program did to it.
//!
//! In: the folder as it was before the program started ([`Disk::read`]) and the record `preload/recorder.c` made of the
//! program's life. Out: the folder as it may be after the power went away with the last line of the record
//! ([`Disk::write`]). What was synced is there; of the rest the [`Model`] keeps nothing, or a part.
//!
//! Content and names last apart from each other: a file's content by a sync of the file, its name by a sync of the
//! directory, and a rename between two directories by a sync of each. No file system is that cruel; who survives this
//! survives all of them. Files are told apart by inode number, which a removed file's successor may have again.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What becomes of what was not synced.
#[derive(Clone, Debug)]
pub enum Model {
    /// It is gone.
    Strict,
    /// Each write is there, gone, or there up to some sector; of each directory's changes the first few are there.
    Torn(fastrand::Rng),
}

/// Files and directories of a folder and what of them lasts.
#[derive(Debug, Default)]
pub struct Disk {
    files: HashMap<u64, File>,
    /// Each directory's names: of the folder itself, and of all below.
    folders: BTreeMap<PathBuf, Folder>,
}

#[derive(Debug, Default)]
struct File {
    lasting: Vec<u8>,
    /// Changes since, with the number of their record.
    pending: Vec<(u64, Change)>,
}

#[derive(Debug)]
enum Change {
    Write { at: usize, data: Vec<u8> },
    Size(usize),
}

#[derive(Debug, Default)]
struct Folder {
    lasting: BTreeMap<PathBuf, Node>,
    pending: Vec<(u64, PathBuf, Option<Node>)>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(u64),
    Folder,
}

/// One line of the record.
#[derive(Debug)]
struct Record<'a> {
    kind: u32,
    path: PathBuf,
    other: PathBuf,
    data: &'a [u8],
    inode: u64,
    at: u64,
    length: u64,
}

impl Disk {
    /// A folder of which everything lasts.
    pub fn read(folder: &Path) -> Disk {
        let mut disk = Disk::default();
        disk.read_below(folder);
        disk
    }

    fn read_below(&mut self, folder: &Path) {
        let mut names = BTreeMap::new();
        if let Ok(entries) = fs::read_dir(folder) {
            for path in entries.map(|entry| entry.expect("an entry").path()) {
                let about = fs::symlink_metadata(&path).expect("a file just listed");
                if about.is_dir() {
                    names.insert(path.clone(), Node::Folder);
                    self.read_below(&path);
                } else {
                    names.insert(path.clone(), Node::File(about.ino()));
                    let lasting = fs::read(&path).expect("a file just listed");
                    self.files.insert(about.ino(), File { lasting, pending: Vec::new() });
                }
            }
        }
        self.folders.insert(folder.to_owned(), Folder { lasting: names, pending: Vec::new() });
    }

    /// Lets the program's life happen and the power go.
    pub fn play(&mut self, record: &[u8], model: &mut Model) {
        let mut rest = record;
        let mut number = 0;
        while let Some((record, behind)) = next(rest) {
            self.apply(number, &record);
            (rest, number) = (behind, number + 1);
        }
        for file in self.files.values_mut() {
            for (_, change) in std::mem::take(&mut file.pending) {
                if let Some(change) = model.change(change) {
                    file.make_last(change);
                }
            }
        }
        for folder in self.folders.values_mut() {
            let kept = model.names(folder.pending.len());
            folder.make_last(|at, _| at < kept);
            folder.pending.clear();
        }
    }

    /// Writes what lasts into an emptied folder.
    pub fn write(&self, folder: &Path) {
        if folder.exists() {
            fs::remove_dir_all(folder).expect("a folder of ours");
        }
        fs::create_dir(folder).expect("a folder of ours");
        self.write_below(folder);
    }

    fn write_below(&self, folder: &Path) {
        let Some(names) = self.folders.get(folder) else { return };
        for (path, node) in &names.lasting {
            match node {
                Node::File(inode) => {
                    let content = self.files.get(inode).map_or(&[][..], |file| &file.lasting);
                    fs::write(path, content).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                }
                Node::Folder => {
                    fs::create_dir(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                    self.write_below(path);
                }
            }
        }
    }

    fn apply(&mut self, number: u64, record: &Record) {
        let Record { path, other, inode, at, .. } = record;
        match record.kind {
            CREATE => {
                self.files.insert(*inode, File::default());
                self.name(number, path, Some(Node::File(*inode)));
            }
            WRITE => self.change(number, *inode, Change::Write { at: *at as usize, data: record.data.to_vec() }),
            ZEROS => {
                let data = vec![0; record.length as usize];
                self.change(number, *inode, Change::Write { at: *at as usize, data });
            }
            SIZE => self.change(number, *inode, Change::Size(*at as usize)),
            SYNC => {
                let file = self.files.entry(*inode).or_default();
                let (covered, pending) = std::mem::take(&mut file.pending).into_iter().partition(|(n, _)| n < at);
                file.pending = pending;
                let covered: Vec<(u64, Change)> = covered;
                covered.into_iter().for_each(|(_, change)| file.make_last(change));
            }
            SYNC_NAMES => {
                let folder = self.folders.entry(path.clone()).or_default();
                folder.make_last(|_, number| number < *at);
                folder.pending.retain(|(number, ..)| number >= at);
            }
            RENAME => {
                let node = self.node(path);
                self.name(number, path, None);
                self.name(number, other, node);
            }
            LINK => {
                let node = self.node(path);
                self.name(number, other, node);
            }
            UNLINK => self.name(number, path, None),
            MKDIR => {
                self.folders.insert(path.clone(), Folder::default());
                self.name(number, path, Some(Node::Folder));
            }
            kind => panic!("a record of kind {kind}"),
        }
    }

    fn change(&mut self, number: u64, inode: u64, change: Change) {
        self.files.entry(inode).or_default().pending.push((number, change));
    }

    fn name(&mut self, number: u64, path: &Path, node: Option<Node>) {
        let folder = self.folders.entry(path.parent().expect("a path below the folder").to_owned()).or_default();
        folder.pending.push((number, path.to_owned(), node));
    }

    /// What a name stands for while the power is on.
    fn node(&self, path: &Path) -> Option<Node> {
        let folder = self.folders.get(path.parent()?)?;
        let pending = folder.pending.iter().rev().find(|(_, name, _)| name == path);
        pending.map_or_else(|| folder.lasting.get(path).copied(), |(_, _, node)| *node)
    }
}

impl File {
    fn make_last(&mut self, change: Change) {
        match change {
            Change::Write { at, data } => {
                let end = at + data.len();
                if self.lasting.len() < end {
                    self.lasting.resize(end, 0);
                }
                self.lasting[at..end].copy_from_slice(&data);
            }
            Change::Size(size) => self.lasting.resize(size, 0),
        }
    }
}

impl Folder {
    fn make_last(&mut self, keep: impl Fn(usize, u64) -> bool) {
        for (at, (number, path, node)) in self.pending.iter().enumerate() {
            match node {
                _ if !keep(at, *number) => {}
                Some(node) => _ = self.lasting.insert(path.clone(), *node),
                None => _ = self.lasting.remove(path),
            }
        }
    }
}

impl Model {
    fn change(&mut self, change: Change) -> Option<Change> {
        let Model::Torn(random) = self else { return None };
        match (random.u8(0..3), change) {
            (0, _) => None,
            (1, Change::Write { at, mut data }) => {
                data.truncate(random.usize(0..=data.len() / SECTOR) * SECTOR);
                Some(Change::Write { at, data })
            }
            (_, change) => Some(change),
        }
    }

    /// How many of so many changes of names are there.
    fn names(&mut self, count: usize) -> usize {
        match self {
            Model::Strict => 0,
            Model::Torn(random) => random.usize(0..=count),
        }
    }
}

/// The first record and what stands behind it; `None` at the end, and where the kill cut one short.
fn next(octets: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (head, rest) = octets.split_at_checked(HEAD_OCTETS)?;
    let short = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four octets"));
    let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight octets"));
    let (path, rest) = rest.split_at_checked(short(4) as usize)?;
    let (other, rest) = rest.split_at_checked(short(8) as usize)?;
    let (data, rest) = rest.split_at_checked(short(12) as usize)?;
    let text = |octets: &[u8]| PathBuf::from(String::from_utf8_lossy(octets).into_owned());
    let record = Record {
        kind: short(0),
        path: text(path),
        other: text(other),
        data,
        inode: long(16),
        at: long(24),
        length: long(32),
    };
    Some((record, rest))
}

const HEAD_OCTETS: usize = 40;
const CREATE: u32 = 1;
const WRITE: u32 = 2;
const ZEROS: u32 = 3;
const SIZE: u32 = 4;
const SYNC: u32 = 5;
const SYNC_NAMES: u32 = 6;
const RENAME: u32 = 7;
const UNLINK: u32 = 8;
const MKDIR: u32 = 9;
const LINK: u32 = 10;
/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// A record as the library writes it.
    fn record(kind: u32, path: &str, other: &str, inode: u64, at: u64, data: &[u8]) -> Vec<u8> {
        let lengths = [kind, path.len() as u32, other.len() as u32, data.len() as u32].map(u32::to_le_bytes).concat();
        let numbers = [inode, at, 0].map(u64::to_le_bytes).concat();
        [&lengths, &numbers, path.as_bytes(), other.as_bytes(), data].concat()
    }

    /// What is in `/s` after a strict cut: names and content.
    fn after(records: &[Vec<u8>]) -> Vec<(String, Vec<u8>)> {
        let mut disk = Disk::default();
        disk.folders.insert("/s".into(), Folder::default());
        disk.play(&records.concat(), &mut Model::Strict);
        let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
        let content = |node: &Node| match node {
            Node::File(inode) => disk.files[inode].lasting.clone(),
            Node::Folder => Vec::new(),
        };
        disk.folders[Path::new("/s")].lasting.iter().map(|(path, node)| (name(path), content(node))).collect()
    }

    #[test]
    fn content_and_names_last_by_their_own_syncs() {
        let create = record(CREATE, "/s/new", "", 7, 0, b"");
        let write = record(WRITE, "", "", 7, 1, b"abc");
        let sync = |covered| record(SYNC, "/s/new", "", 7, covered, b"");
        let names = |covered| record(SYNC_NAMES, "/s", "", 1, covered, b"");
        let rename = record(RENAME, "/s/new", "/s/there", 0, 0, b"");
        let all = [create.clone(), write.clone(), sync(2), rename.clone(), names(4)];
        assert_eq!(after(&all), [("there".to_owned(), b"\0abc".to_vec())]);
        assert_eq!(after(&all[..4]), [], "no name without a sync of the directory");
        let early = [create.clone(), names(1), write.clone(), sync(3), rename.clone()];
        assert_eq!(after(&early), [("new".to_owned(), b"\0abc".to_vec())], "the rename did not last");
        let unsynced = [create.clone(), write.clone(), names(2)];
        assert_eq!(after(&unsynced), [("new".to_owned(), b"".to_vec())], "the content did not last");
        let begun_before = [create, write, sync(1), names(3)];
        assert_eq!(after(&begun_before), [("new".to_owned(), b"".to_vec())], "a sync covers what was before it");
    }

    #[test]
    fn an_unlink_lasts_like_any_name_and_a_cut_record_is_none() {
        let mut records = vec![
            record(CREATE, "/s/a", "", 7, 0, b""),
            record(SYNC_NAMES, "/s", "", 1, 1, b""),
            record(UNLINK, "/s/a", "", 0, 0, b""),
        ];
        assert_eq!(after(&records).len(), 1);
        records.push(record(SYNC_NAMES, "/s", "", 1, 3, b""));
        assert_eq!(after(&records).len(), 0);
        records[3].pop();
        assert_eq!(after(&records).len(), 1);
    }

    #[test]
    fn a_torn_write_is_there_up_to_a_sector() {
        let mut kept = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let mut model = Model::Torn(fastrand::Rng::with_seed(seed));
            let write = Change::Write { at: 0, data: vec![1; 2 * SECTOR] };
            kept.insert(model.change(write).map(|change| match change {
                Change::Write { data, .. } => data.len(),
                Change::Size(_) => unreachable!("a write stays one"),
            }));
        }
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [None, Some(0), Some(SECTOR), Some(2 * SECTOR)]);
    }
}
