//! On what a directory lies: file system, mount options, and what the device says of its cache.

use std::fs;
use std::path::{Path, PathBuf};

/// The mount that a directory is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub at: PathBuf,
    pub kind: String,
    pub source: String,
    pub options: String,
    /// What the block device says: `write back` has a cache that a cut empties, `write through` has none.
    pub cache: Option<String>,
}

/// The mount of `dir`; `None` when the system does not tell.
pub(super) fn of(dir: &Path) -> Option<Mount> {
    let dir = dir.canonicalize().ok()?;
    let text = fs::read_to_string(MOUNTS).ok()?;
    let (mut mount, device) = find(&text, &dir)?;
    let block = PathBuf::from("/sys/dev/block").join(device);
    // A partition has its queue in the directory above.
    let caches = ["queue/write_cache", "../queue/write_cache"].map(|name| fs::read_to_string(block.join(name)).ok());
    mount.cache = caches.into_iter().flatten().next().map(|text| text.trim().to_owned());
    Some(mount)
}

/// The innermost mount that holds `dir`, and its device.
fn find(text: &str, dir: &Path) -> Option<(Mount, String)> {
    let mounts = text.lines().filter_map(parse).filter(|(mount, _)| dir.starts_with(&mount.at));
    // A later mount on the same place hides the earlier one.
    mounts.max_by_key(|(mount, _)| mount.at.as_os_str().len())
}

/// A line of `/proc/self/mountinfo`.
fn parse(line: &str) -> Option<(Mount, String)> {
    let (first, second) = line.split_once(" - ")?;
    let fields: Vec<&str> = first.split(' ').collect();
    let [_, _, device, _, at, options, ..] = fields[..] else { return None };
    let mut fields = second.split(' ');
    let (kind, source, more) = (fields.next()?, fields.next()?, fields.next().unwrap_or_default());
    let mount = Mount {
        at: PathBuf::from(unescaped(at)),
        kind: kind.to_owned(),
        source: unescaped(source),
        options: if more.is_empty() { options.to_owned() } else { format!("{options},{more}") },
        cache: None,
    };
    Some((mount, device.to_owned()))
}

/// Blanks and the like stand as three octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Linux: every mount, a line each.
const MOUNTS: &str = "/proc/self/mountinfo";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let text = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n\
            30 22 0:25 / /var/lib\\040x rw,nosuid - tmpfs tmpfs rw,size=64m\n\
            31 22 8:2 / /var rw - xfs /dev/sda2 rw\n";
        let kind = |dir: &str| find(text, Path::new(dir)).map(|(mount, device)| (mount.kind, device));
        assert_eq!(kind("/var/lib x/spool"), Some(("tmpfs".into(), "0:25".into())));
        assert_eq!(kind("/var/lib"), Some(("xfs".into(), "8:2".into())));
        assert_eq!(kind("/varnish"), Some(("ext4".into(), "8:1".into())));
        let (mount, _) = find(text, Path::new("/")).expect("the root");
        assert_eq!(mount.options, "rw,relatime,rw,errors=remount-ro");
    }
}
