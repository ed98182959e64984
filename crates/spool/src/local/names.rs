//! Names: which file a message has, and what a name found on the disk stands for.

use core::fmt;
use message::MessageId;

/// 64 random bits that tell the files of one run of the program from those of others; no peer can know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u64);

/// A directory of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Folder {
    /// Messages; below [`FOLDERS_OF_MESSAGES`].
    Messages(u8),
    /// Transactions that are not promised yet.
    Intents,
    /// Files that are not whole.
    Corrupt,
}

/// A file of the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LocalName {
    /// A message.
    Message(MessageId),
    /// A message being written, by which run.
    New(MessageId, Run),
    /// The ids of a transaction; named after its first message.
    Intent(MessageId),
    /// Something that was not whole, and which run moved it here.
    Aside(MessageId, Run),
}

impl Folder {
    /// The directory of a message: by the moment its id was made, so that messages which come together share the sync of one.
    pub fn of(id: MessageId) -> Folder {
        let moment = id.created().unix_micros().div_euclid(FOLDER_MICROS);
        Folder::Messages(moment.rem_euclid(i64::from(FOLDERS_OF_MESSAGES)) as u8)
    }

    /// Every directory that holds messages.
    pub fn of_messages() -> impl Iterator<Item = Folder> {
        (0..FOLDERS_OF_MESSAGES).map(Folder::Messages)
    }

    /// Every directory.
    pub fn all() -> impl Iterator<Item = Folder> {
        Folder::of_messages().chain([Folder::Intents, Folder::Corrupt])
    }

    /// What a name found in this directory stands for; `None` when it is none of ours.
    pub fn parse(self, name: &str) -> Option<LocalName> {
        self.read(name).filter(|found| found.folder() == self)
    }

    /// What a name found in this directory would stand for in another one, where version 1 had it here.
    pub fn misplaced(self, name: &str) -> Option<LocalName> {
        self.read(name).filter(|found| found.folder() != self)
    }

    fn read(self, name: &str) -> Option<LocalName> {
        Some(match (self, name.split_once('.')) {
            (Folder::Messages(_), None) => LocalName::Message(id(name)?),
            (Folder::Messages(_), Some((first, rest))) => LocalName::New(id(first)?, run(rest.strip_prefix("new.")?)?),
            (Folder::Intents, None) => LocalName::Intent(id(name)?),
            (Folder::Corrupt, Some((first, rest))) => LocalName::Aside(id(first)?, run(rest)?),
            _ => return None,
        })
    }
}

impl LocalName {
    /// The message it belongs to; of a transaction, its first.
    pub fn id(self) -> MessageId {
        match self {
            LocalName::Message(id) | LocalName::New(id, _) | LocalName::Intent(id) | LocalName::Aside(id, _) => id,
        }
    }

    /// The directory it is in.
    pub fn folder(self) -> Folder {
        match self {
            LocalName::Message(id) | LocalName::New(id, _) => Folder::of(id),
            LocalName::Intent(_) => Folder::Intents,
            LocalName::Aside(..) => Folder::Corrupt,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The path below the spool directory.
impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Folder::Messages(number) => write!(f, "msg/{number:02x}"),
            Folder::Intents => f.write_str("tx"),
            Folder::Corrupt => f.write_str("corrupt"),
        }
    }
}

/// The path below the spool directory.
impl fmt::Display for LocalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder();
        match self {
            LocalName::Message(id) | LocalName::Intent(id) => write!(f, "{folder}/{id}"),
            LocalName::New(id, run) => write!(f, "{folder}/{id}.new.{run}"),
            LocalName::Aside(id, run) => write!(f, "{folder}/{id}.{run}"),
        }
    }
}

/// Exactly as [`MessageId`] writes it: another spelling would be another file.
fn id(text: &str) -> Option<MessageId> {
    text.parse().ok().filter(|_| is_hex(text, 32))
}

fn run(text: &str) -> Option<Run> {
    u64::from_str_radix(text, 16).ok().filter(|_| is_hex(text, 16)).map(Run)
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Microseconds for which new messages have the same directory.
const FOLDER_MICROS: i64 = 4_096;
/// Directories that hold messages.
pub const FOLDERS_OF_MESSAGES: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use clock::WallTime;
    use message::IdGenerator;

    #[test]
    fn names_read_back_as_written_and_others_are_none_of_ours() {
        let (id, run) = (MessageId::from_bytes([0xa5; 16]), Run(0xfedc));
        for name in [LocalName::Message(id), LocalName::New(id, run), LocalName::Intent(id), LocalName::Aside(id, run)]
        {
            let path = name.to_string();
            let file = path.strip_prefix(&format!("{}/", name.folder())).expect("its folder comes first");
            assert_eq!(name.folder().parse(file), Some(name), "{path}");
            let strange = [format!("{file}~"), file.to_uppercase(), format!(".{file}"), file[1..].to_owned()];
            for strange in strange {
                assert_eq!(name.folder().parse(&strange), None, "{strange}");
            }
        }
        assert_eq!(LocalName::Message(id).to_string(), format!("msg/07/{id}"));
        assert_eq!(Folder::Messages(1).parse(&id.to_string()), None, "not in its directory");
        assert_eq!(Folder::of(id).parse("a5a5a5a5-a5a5-a5a5-a5a5-a5a5a5a5a5a5"), None, "another spelling");
    }

    #[test]
    fn messages_of_a_moment_share_a_directory_and_all_directories_are_used() {
        let mut ids = IdGenerator::new([1, 2, 3, 4, 5, 6], 7);
        let mut counts = [0; FOLDERS_OF_MESSAGES as usize];
        let (mut last, mut changes) = (None, 0);
        for n in 0..6400 {
            let folder = Folder::of(ids.next(WallTime::from_unix_micros(1_790_000_000_000_000 + n * 170)));
            let Folder::Messages(at) = folder else { panic!("messages are in their folders") };
            counts[usize::from(at)] += 1;
            changes += i64::from(last.replace(folder) != Some(folder));
        }
        let (least, most) = (counts.iter().min(), counts.iter().max());
        assert!(least > Some(&70) && most < Some(&130), "{counts:?}");
        assert_eq!(changes, 6400 * 170 / FOLDER_MICROS + 1, "a new one every 4 ms");
    }

    #[test]
    fn a_file_of_another_directory_is_told_from_a_strange_one() {
        let (id, run) = (MessageId::from_bytes([0xa5; 16]), Run(0xfedc));
        let own = Folder::of(id);
        for name in [LocalName::Message(id), LocalName::New(id, run)] {
            let file = name.to_string().rsplit('/').next().expect("a file").to_owned();
            assert_eq!((own.misplaced(&file), Folder::Messages(63).misplaced(&file)), (None, Some(name)), "{file}");
        }
        assert_eq!([own.misplaced("README"), Folder::Messages(63).misplaced("README")], [None, None]);
    }
}
