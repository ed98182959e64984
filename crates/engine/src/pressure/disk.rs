//! A disk judged: whether a file system has the room it shall keep, and what to say about it.
//!
//! Refusing begins with the first sample that is short; it ends with the second good one in a row, so that
//! a disk at the edge does not flap. A file system that does not answer is asked no second time until it does.

use config::{MinFree, WhenFull};
use policy::Startup;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Free;
use tokio::task::JoinHandle;

/// A directory whose file system must keep some room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// As metrics and log lines call it: `data spool`, `log dir /var/log/x`.
    pub name: String,
    /// The directory; where it is not there yet, the nearest one above it counts.
    pub path: PathBuf,
    /// Octets that must be free.
    pub min_free_space: MinFree,
    /// Inodes that must be free.
    pub min_free_inodes: MinFree,
    /// It is in use as long as the program runs: another directory in its place, or none, would lose what is in it. A log's is made
    /// anew.
    pub must_stay: bool,
}

impl Volume {
    /// Those that a policy's spools and logs are on, under the names KumoMTA's metrics have. All spools are in `spool_dir`. Mail does
    /// not wait for logs that drop what they have no room for.
    pub fn all(startup: &Startup, spool_dir: &Path) -> Vec<Volume> {
        let spools = startup.spools.iter().map(|spool| Volume {
            name: format!("{} spool", spool.name),
            path: spool_dir.to_owned(),
            min_free_space: spool.min_free_space,
            min_free_inodes: spool.min_free_inodes,
            must_stay: true,
        });
        let logs = startup.local_logs.iter().filter(|logs| logs.when_full == WhenFull::Wait).flat_map(|logs| {
            let of_types = logs.per_record.values().filter_map(|of_type| of_type.log_dir.clone());
            std::iter::once(logs.log_dir.clone()).chain(of_types).map(|dir| Volume {
                name: format!("log dir {}", dir.display()),
                path: dir,
                min_free_space: logs.min_free_space,
                min_free_inodes: logs.min_free_inodes,
                must_stay: false,
            })
        });
        let accounts = startup.acct_log.iter().map(|log| Volume {
            name: format!("acct log dir {}", log.log_dir.display()),
            path: log.log_dir.clone(),
            min_free_space: log.min_free_space,
            min_free_inodes: log.min_free_inodes,
            must_stay: false,
        });
        spools.chain(logs).chain(accounts).collect()
    }
}

/// What one look at a volume gave.
#[derive(Debug)]
pub(super) enum Look {
    Free(Free),
    Failed(io::Error),
    /// No answer in time; the look goes on.
    Silent,
}

/// What a volume means for new mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Room,
    Full,
    /// Nothing is known; nothing is promised.
    Silent,
}

/// A volume's history.
#[derive(Debug)]
pub(super) struct Judge {
    volume: Volume,
    pub verdict: Verdict,
    good_looks: u32,
}

/// A verdict that is another than before, and the line for the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub before: Verdict,
    pub after: Verdict,
    pub text: String,
}

impl Judge {
    pub fn new(volume: Volume) -> Judge {
        Judge { volume, verdict: Verdict::Room, good_looks: 0 }
    }

    /// Takes one look in.
    pub fn judge(&mut self, look: &Look) -> Option<Change> {
        let (seen, what) = self.volume.see(look);
        self.good_looks = if seen == Verdict::Room { self.good_looks.saturating_add(1) } else { 0 };
        let before = self.verdict;
        let holds = seen == before || (seen == Verdict::Room && self.good_looks < GOOD_LOOKS);
        if holds {
            return None;
        }
        self.verdict = seen;
        let Volume { name, path, .. } = &self.volume;
        let meaning = if seen == Verdict::Room { "new mail is taken again" } else { "no new mail is taken" };
        Some(Change { before, after: seen, text: format!("{name} ({}): {what}: {meaning}", path.display()) })
    }
}

impl Volume {
    fn see(&self, look: &Look) -> (Verdict, String) {
        let free = match look {
            Look::Free(free) => free,
            Look::Failed(error) => return (Verdict::Silent, error.to_string()),
            Look::Silent => return (Verdict::Silent, "the file system does not answer".to_owned()),
        };
        let space = self.min_free_space.is_met(free.octets, free.octets_total);
        let inodes = self.min_free_inodes.is_met(free.inodes, free.inodes_total);
        let what = match (space, inodes) {
            (true, false) => {
                let Free { inodes, inodes_percent, .. } = free;
                format!("{inodes} inodes free ({inodes_percent:.1}%), min_free_inodes is {}", self.min_free_inodes)
            }
            _ => {
                let Free { octets, octets_percent, .. } = free;
                format!("{octets} bytes free ({octets_percent:.1}%), min_free_space is {}", self.min_free_space)
            }
        };
        (if space && inodes { Verdict::Room } else { Verdict::Full }, what)
    }
}

/// Looks at one directory, with at most one system call under way however long it takes.
pub(super) struct Looker<M> {
    path: PathBuf,
    measure: M,
    under_way: Option<JoinHandle<io::Result<Seen>>>,
    /// Which directory was there when it was looked at first.
    found: Option<Directory>,
    must_stay: bool,
}

/// Device and inode.
type Directory = (u64, u64);
/// The room there is, and the directory that has it.
type Seen = (Free, Option<Directory>);

impl<M: Fn(&Path) -> io::Result<Free> + Clone + Send + 'static> Looker<M> {
    pub fn new(path: PathBuf, must_stay: bool, measure: M) -> Looker<M> {
        Looker { path, measure, under_way: None, found: None, must_stay }
    }

    /// The next look; [`Look::Silent`] after `patience`, and then again until the call has come back.
    pub async fn look(&mut self, patience: Duration) -> Look {
        let under_way = self.under_way.get_or_insert_with(|| {
            let (path, measure, found) = (self.path.clone(), self.measure.clone(), self.found);
            tokio::task::spawn_blocking(move || {
                let now = directory(&path)?;
                match found.is_some() && now != found {
                    true => Err(io::Error::other(if now.is_none() { REMOVED } else { REPLACED })),
                    false => measure(&path).map(|free| (free, now)),
                }
            })
        });
        let Ok(ended) = tokio::time::timeout(patience, under_way).await else { return Look::Silent };
        self.under_way = None;
        match ended {
            Ok(Ok((free, found))) => {
                self.found = self.found.or(found).filter(|_| self.must_stay);
                Look::Free(free)
            }
            Ok(Err(error)) => Look::Failed(error),
            Err(panicked) => Look::Failed(io::Error::other(panicked)),
        }
    }
}

/// The directory that is there, if one is.
fn directory(path: &Path) -> io::Result<Option<Directory>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some((found.dev(), found.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Room on the file system of `path`, or of the nearest directory above it that is there.
pub(super) fn measure(path: &Path) -> io::Result<Free> {
    let mut absent = io::Error::from(io::ErrorKind::NotFound);
    for path in path.ancestors() {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        match store::free(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => absent = error,
            other => return other,
        }
    }
    Err(absent)
}

/// What is said of a directory that is not what it was: what is written goes to files that nobody finds again.
const REMOVED: &str = "the directory was there, and is gone";
const REPLACED: &str = "another directory is there now: it was moved, removed or mounted over while it was in use";
/// Good looks in a row before mail is taken again.
const GOOD_LOOKS: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(space: MinFree, inodes: MinFree) -> Judge {
        let path = PathBuf::from("/var/spool/x");
        Judge::new(Volume {
            name: "data spool".into(),
            path,
            min_free_space: space,
            min_free_inodes: inodes,
            must_stay: true,
        })
    }

    fn look(octets: u64, inodes: u64) -> Look {
        let percent = |part: u64| part as f64 / 10.0;
        Look::Free(Free {
            octets,
            octets_total: 1000,
            octets_percent: percent(octets),
            inodes,
            inodes_total: 1000,
            inodes_percent: percent(inodes),
        })
    }

    fn text(change: Option<Change>) -> String {
        change.map(|c| c.text).unwrap_or_default()
    }

    #[test]
    fn a_full_disk_is_said_once_and_its_end_after_two_good_looks() {
        let mut judge = judge(MinFree::Percent(10), MinFree::Percent(10));
        assert_eq!(judge.judge(&look(100, 100)), None, "at the bound there is room");
        let said = "data spool (/var/spool/x): 99 bytes free (9.9%), min_free_space is 10%: no new mail is taken";
        assert_eq!(text(judge.judge(&look(99, 100))), said);
        assert_eq!(judge.verdict, Verdict::Full);
        assert_eq!(judge.judge(&look(98, 100)), None);
        assert_eq!(judge.judge(&look(100, 100)), None, "one good look is not enough");
        assert_eq!(judge.judge(&look(99, 100)), None);
        assert_eq!(judge.judge(&look(100, 100)), None, "good looks count in a row");
        let change = judge.judge(&look(500, 100)).expect("room again");
        assert_eq!((change.before, change.after), (Verdict::Full, Verdict::Room));
        assert!(change.text.ends_with("500 bytes free (50.0%), min_free_space is 10%: new mail is taken again"));
    }

    #[test]
    fn inodes_count_likewise_and_zero_is_never_short() {
        let mut one = judge(MinFree::Percent(0), MinFree::Amount(5));
        assert_eq!(one.judge(&look(0, 5)), None);
        let said = text(one.judge(&look(0, 4)));
        assert!(said.contains(": 4 inodes free (0.4%), min_free_inodes is 5: no new mail"), "{said}");
        let mut none = judge(MinFree::Percent(0), MinFree::Amount(0));
        assert_eq!(none.judge(&look(0, 0)), None);
    }

    #[test]
    fn a_disk_that_fails_or_hangs_promises_nothing() {
        let mut judge = judge(MinFree::Percent(10), MinFree::Percent(10));
        assert_eq!(judge.judge(&look(50, 100)).map(|c| c.after), Some(Verdict::Full));
        let silent = judge.judge(&Look::Silent).expect("worse");
        assert_eq!((silent.before, silent.after), (Verdict::Full, Verdict::Silent));
        assert_eq!(judge.judge(&Look::Failed(io::ErrorKind::PermissionDenied.into())), None, "silent either way");
        assert_eq!(judge.judge(&look(50, 100)).map(|c| c.after), Some(Verdict::Full));
    }

    #[tokio::test]
    async fn a_disk_that_hangs_is_asked_once() {
        let (answer, answers) = std::sync::mpsc::channel::<Free>();
        let answers = std::sync::Arc::new(std::sync::Mutex::new(answers));
        let calls = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = calls.clone();
        let mut looker = Looker::new(PathBuf::from("/"), true, move |_: &Path| {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            answers.lock().expect("no panic").recv().map_err(io::Error::other)
        });
        assert!(matches!(looker.look(Duration::from_millis(1)).await, Look::Silent));
        assert!(matches!(looker.look(Duration::from_millis(1)).await, Look::Silent));
        let Look::Free(room) = look(7, 7) else { unreachable!("made of numbers") };
        answer.send(room).expect("somebody waits");
        assert!(matches!(looker.look(Duration::from_secs(20)).await, Look::Free(found) if found == room));
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 1);
        drop(answer);
        assert!(matches!(looker.look(Duration::from_secs(20)).await, Look::Failed(_)));
        assert_eq!(calls.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_directory_that_goes_is_no_room() {
        let dir = tempfile::tempdir().expect("scratch");
        let path = dir.path().join("spool");
        let mut looker = Looker::new(path.clone(), true, measure);
        let patience = Duration::from_secs(20);
        assert!(matches!(looker.look(patience).await, Look::Free(_)), "not there yet");
        std::fs::create_dir(&path).expect("made");
        assert!(matches!(looker.look(patience).await, Look::Free(_)));
        let said = |look: Look| match look {
            Look::Failed(error) => error.to_string(),
            _ => "a look".to_owned(),
        };
        std::fs::rename(&path, dir.path().join("moved")).expect("moved");
        assert_eq!(said(looker.look(patience).await), REMOVED);
        std::fs::create_dir(&path).expect("made");
        assert_eq!(said(looker.look(patience).await), REPLACED);
        std::fs::remove_dir(&path).expect("removed");
        std::fs::rename(dir.path().join("moved"), &path).expect("back");
        assert!(matches!(looker.look(patience).await, Look::Free(_)), "it is the same again");
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_measured_where_it_will_be() {
        let dir = tempfile::tempdir().expect("scratch");
        let here = measure(dir.path()).expect("there");
        let there = measure(&dir.path().join("not/yet")).expect("measured above");
        assert_eq!(here.octets_total, there.octets_total);
        assert!(measure(Path::new("relative/not/there")).is_ok());
    }
}
