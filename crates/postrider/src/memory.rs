//! This process's memory: how much it may use, how much it uses, and giving some back.
//!
//! In: `/proc`, `/sys/fs/cgroup`, the environment. Out: [`found`], the limits that hold when no policy sets others,
//! and [`Probe`], which measures against them. The page cache never counts: in a cgroup only what the kernel
//! cannot drop at once does. What a system does not tell is as if it were not limited.

use crate::allocator;
use anyhow::{Context, anyhow};
use config::MemoryLimits;
use engine::pressure::Memory;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// A limit and what has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the system allows, unless the environment says something else.
    pub limits: MemoryLimits,
    source: Source,
}

/// What limits this process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// A cgroup: its directory, and its files.
    Cgroup(PathBuf, &'static Cgroup),
    /// `RLIMIT_AS`: address space.
    AddressSpace,
    /// The machine's memory, or somebody's word.
    Given,
}

/// The files of one version of cgroups.
#[derive(Debug, PartialEq, Eq)]
struct Cgroup {
    limits: &'static [&'static str],
    used: &'static str,
    /// Counters of `memory.stat` that the kernel can drop at once.
    reclaimable: &'static [&'static str],
}

/// What this system and the environment say of memory.
///
/// # Errors
/// A variable that is no number of octets.
pub fn found() -> anyhow::Result<Found> {
    let (hard, source) = limit_of_system();
    let of_system = MemoryLimits { hard, ..MemoryLimits::default() };
    let of_environment = MemoryLimits {
        hard: variable("KUMOD_MEMORY_HARD_LIMIT")?,
        soft: variable("KUMOD_MEMORY_SOFT_LIMIT")?,
        low: None,
    };
    let source = if of_environment.hard.is_some() { Source::Given } else { source };
    Ok(Found { limits: of_environment.or(of_system), source })
}

impl Source {
    fn words(&self) -> String {
        match self {
            Source::Cgroup(dir, _) => format!("the limit of cgroup {}", dir.display()),
            Source::AddressSpace => "the limit of address space".to_owned(),
            Source::Given => "what the machine has, or policy or environment say".to_owned(),
        }
    }
}

impl Found {
    /// What set the limit, in words.
    pub fn source_words(&self) -> String {
        self.source.words()
    }

    /// With what the policy says; a hard limit of its own is measured by the resident set alone.
    pub fn with(self, policy: MemoryLimits) -> Found {
        let source = if policy.hard.is_some() { Source::Given } else { self.source };
        Found { limits: policy.or(self.limits), source }
    }
}

/// The smallest of cgroup, address space and machine. (KumoMTA takes the first it finds: a larger one would not
/// keep the smaller from ending the process.)
fn limit_of_system() -> (Option<u64>, Source) {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    all.extend(machine(&text("/proc/meminfo")).map(|octets| (octets, Source::Given)));
    all.extend(address_space().map(|octets| (octets, Source::AddressSpace)));
    all.extend(cgroup(&text("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")));
    let smallest = all.into_iter().min_by_key(|(octets, _)| *octets);
    smallest.map_or((None, Source::Given), |(octets, source)| (Some(octets), source))
}

/// Octets of address space, where that is limited.
pub fn address_space() -> Option<u64> {
    getrlimit(Resource::RLIMIT_AS).ok().map(|(soft, _)| soft).filter(|octets| *octets != RLIM_INFINITY)
}

/// `MemTotal` of `/proc/meminfo`.
fn machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// The tightest limit of the cgroups named in `/proc/self/cgroup` and of those above them.
fn cgroup(own: &str, mounted: &Path) -> Option<(u64, Source)> {
    let mut all = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (files, roots) = if controllers.is_empty() {
            (&V2, vec![mounted.to_owned(), mounted.join("unified")])
        } else if controllers.split(',').any(|c| c == "memory") {
            (&V1, vec![mounted.join("memory")])
        } else {
            continue;
        };
        for root in roots {
            // In a container the path may be the host's: then the root is the container's own group.
            let dir = root.join(path.trim_start_matches('/'));
            for dir in dir.ancestors().take_while(|dir| dir.starts_with(&root)) {
                let limits = files.limits.iter().filter_map(|file| number(&dir.join(file)));
                all.extend(limits.min().map(|octets| (octets, Source::Cgroup(dir.to_owned(), files))));
            }
        }
    }
    all.into_iter().min_by_key(|(octets, _)| *octets)
}

/// Octets of a cgroup that the kernel cannot drop at once.
fn unreclaimable(dir: &Path, files: &Cgroup) -> Option<u64> {
    let used = number(&dir.join(files.used))?;
    let stat = fs::read_to_string(dir.join("memory.stat")).ok()?;
    let value = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        files.reclaimable.contains(&name).then(|| value.trim().parse::<u64>().ok())?
    };
    Some(used.saturating_sub(stat.lines().filter_map(value).sum()))
}

/// A file that holds one number; `max` is none.
fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn variable(name: &str) -> anyhow::Result<Option<u64>> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    let octets = text.trim().parse().ok().filter(|octets| *octets > 0);
    octets.map(Some).ok_or_else(|| anyhow!("{name}=`{text}`: expected a number of bytes from 1"))
}

/// Measures this process.
pub struct Probe {
    /// Kept open: it is read many times a second.
    statm: File,
    page_octets: u64,
    source: Source,
    /// What counts against the limit beside the resident set, and when that was looked up.
    beside: Mutex<(u64, Option<Instant>)>,
}

impl Probe {
    /// Measures as the limit found is counted.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn new(found: &Found) -> anyhow::Result<Probe> {
        let statm = File::open("/proc/self/statm").context("/proc/self/statm")?;
        let page_octets = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten().unwrap_or(4096);
        let page_octets = u64::try_from(page_octets).context("page size")?;
        let probe = Probe { statm, page_octets, source: found.source.clone(), beside: Mutex::default() };
        if let (Source::AddressSpace, Some((all, resident))) = (&probe.source, probe.sizes()) {
            // What is reserved at the start (stacks, arenas) is reserved for good and mostly untouched.
            let beside = (all.saturating_sub(resident), None);
            *probe.beside.lock().unwrap_or_else(PoisonError::into_inner) = beside;
        }
        Ok(probe)
    }

    /// Octets of address space, and of those in memory.
    fn sizes(&self) -> Option<(u64, u64)> {
        let mut text = [0; 128];
        let count = self.statm.read_at(&mut text, 0).ok()?;
        let mut pages = text[..count].split(|octet| *octet == b' ').map(|digits| {
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok()).map(|n| n * self.page_octets)
        });
        Some((pages.next()??, pages.next()??))
    }

    /// A cgroup's files cost more than our own: they are read a few times a second.
    fn beside(&self, resident: u64) -> u64 {
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        if let Source::Cgroup(dir, files) = &self.source
            && beside.1.is_none_or(|at| at.elapsed() >= CGROUP_INTERVAL)
            && let Some(all) = unreclaimable(dir, files)
        {
            *beside = (all.saturating_sub(resident), Some(Instant::now()));
        }
        beside.0
    }
}

/// Sizes of this process as the kernel names them, in octets.
fn of_status(status: &str) -> Vec<(&'static str, String)> {
    let octets = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((kib * 1024).to_string())
    };
    STATUS.iter().filter_map(|(field, name)| Some((*name, octets(field)?))).collect()
}

impl Memory for Probe {
    fn used(&self) -> Option<u64> {
        let (_, resident) = self.sizes()?;
        Some(resident + self.beside(resident))
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        let mut words = vec![("limit_is_of", self.source.words())];
        words.extend(of_status(&fs::read_to_string("/proc/self/status").unwrap_or_default()));
        words.extend(allocator::arenas().map(|arenas| ("allocator_arenas", arenas.to_string())));
        words
    }

    fn purge(&self) {
        allocator::give_back();
    }
}

/// Fields of `/proc/self/status`, and what they are called here.
const STATUS: [(&str, &str); 6] = [
    ("VmRSS", "resident_bytes"),
    ("RssAnon", "resident_own_bytes"),
    ("RssFile", "resident_of_files_bytes"),
    ("VmHWM", "resident_most_so_far_bytes"),
    ("VmSwap", "swapped_out_bytes"),
    ("VmSize", "address_space_bytes"),
];
const V2: Cgroup = Cgroup {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};
const V1: Cgroup = Cgroup {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};
/// Pause between two looks at a cgroup.
const CGROUP_INTERVAL: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of cgroup files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("scratch");
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("mkdir");
            fs::write(path, text).expect("write");
        }
        dir
    }

    #[test]
    fn the_tightest_cgroup_on_the_way_up_counts() {
        let v2 = tree(&[("a/b/memory.max", "max\n"), ("a/b/memory.high", "900\n"), ("a/memory.max", "800\n")]);
        let found = cgroup("0::/a/b\n", v2.path());
        assert_eq!(found, Some((800, Source::Cgroup(v2.path().join("a"), &V2))));
        let v1 = tree(&[
            ("memory/x/memory.limit_in_bytes", "700\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let own = "5:cpu,cpuacct:/y\n4:memory:/x\n0::/\n";
        assert_eq!(cgroup(own, v1.path()), Some((700, Source::Cgroup(v1.path().join("memory/x"), &V1))));
        let contained = tree(&[("memory.max", "600\n")]);
        assert_eq!(cgroup("0::/not/visible/here\n", contained.path()).map(|f| f.0), Some(600));
        assert_eq!(cgroup("nonsense\n", contained.path()), None);
    }

    #[test]
    fn sizes_are_read_as_the_kernel_writes_them() {
        let status = "Name:\tVmRSS\nVmHWM:\t     200 kB\nVmRSS:\t     100 kB\nVmSwap:\tnothing\n";
        let expected = [("resident_bytes", "102400".to_owned()), ("resident_most_so_far_bytes", "204800".to_owned())];
        assert_eq!(of_status(status), expected);
    }

    #[test]
    fn the_page_cache_does_not_count() {
        let dir = tree(&[
            ("memory.current", "1000\n"),
            ("memory.stat", "anon 300\ninactive_file 400\nactive_file 200\nslab_reclaimable 50\nshmem 7\n"),
        ]);
        assert_eq!(unreclaimable(dir.path(), &V2), Some(350));
        assert_eq!(unreclaimable(Path::new("/not/there"), &V2), None);
        assert_eq!(machine("MemFree: 1 kB\nMemTotal:       16 kB\n"), Some(16 << 10));
    }

    #[test]
    fn the_nearest_word_is_the_limit_and_says_how_it_is_measured() {
        let dir = PathBuf::from("/a");
        let of_cgroup = Found {
            limits: MemoryLimits { hard: Some(100), ..MemoryLimits::default() },
            source: Source::Cgroup(dir.clone(), &V2),
        };
        let soft = MemoryLimits { soft: Some(10), ..MemoryLimits::default() };
        let soft = of_cgroup.clone().with(soft);
        assert_eq!((soft.limits.hard, soft.limits.soft), (Some(100), Some(10)));
        assert_eq!(soft.source, Source::Cgroup(dir, &V2));
        let hard = of_cgroup.with(MemoryLimits { hard: Some(50), ..MemoryLimits::default() });
        assert_eq!((hard.limits.hard, hard.source), (Some(50), Source::Given));
    }

    #[test]
    fn memory_taken_shows_and_memory_given_back_goes() {
        let given = Found { limits: MemoryLimits::default(), source: Source::Given };
        let probe = Probe::new(&given).expect("/proc");
        let used = || probe.used().expect("measured");
        allocator::hold_back();
        let before = used();
        // Small pieces: the allocator keeps such pages for later, a large block would go back by itself.
        let pieces: Vec<Vec<u8>> = (0..64 * 1024).map(|_| vec![1; 1024]).collect();
        let full = used();
        assert!(full >= before + (64 << 20), "{before} -> {full}");
        drop(pieces);
        probe.purge();
        let after = used();
        assert!(after < before + (24 << 20), "{full} -> {after}, {before} before");
        allocator::tests::assert_held_back();
    }
}
