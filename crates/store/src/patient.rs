//! A reader that waits when the operating system has no descriptor or memory to spare.
//!
//! Recovery reads beside sessions, which may have taken every descriptor. What cannot be opened for that reason is not damaged:
//! it is asked for again until it can be. Errors of the disk itself go through. For threads that nobody waits for.

use spool::{FileName, Page, ReadPages};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// See the file's head.
pub(crate) struct Patient {
    reader: Arc<dyn ReadPages>,
    told: AtomicBool,
}

impl Patient {
    /// Reads through `reader`.
    pub fn new(reader: Arc<dyn ReadPages>) -> Patient {
        Patient { reader, told: AtomicBool::new(false) }
    }
}

impl ReadPages for Patient {
    fn read_at(&self, name: FileName, at: u32, into: &mut [Page]) -> io::Result<usize> {
        loop {
            match self.reader.read_at(name, at, into) {
                Err(error) if spool::lacks_means(error.raw_os_error()) => rest(&self.told, &error),
                other => return other,
            }
        }
    }
}

/// Waits before the next try, and says so the first time.
pub(crate) fn rest(told: &AtomicBool, error: &io::Error) {
    if !told.swap(true, Ordering::Relaxed) {
        tracing::warn!(%error, "reading the mail of earlier runs waits for the system");
    }
    thread::sleep(PAUSE);
}

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;
    use std::sync::atomic::AtomicU32;

    /// Refuses so many times, then reads one page.
    struct Refusing {
        times: AtomicU32,
        errno: i32,
    }

    impl ReadPages for Refusing {
        fn read_at(&self, _: FileName, _: u32, _: &mut [Page]) -> io::Result<usize> {
            let refuses = self.times.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            refuses.map_or(Ok(4096), |_| Err(io::Error::from_raw_os_error(self.errno)))
        }
    }

    #[test]
    fn waits_for_descriptors_and_not_for_bad_disks() {
        for (errno, reads) in
            [(Errno::EMFILE, true), (Errno::ENFILE, true), (Errno::EIO, false), (Errno::ENOENT, false)]
        {
            let refusing = Refusing { times: AtomicU32::new(2), errno: errno as i32 };
            let read = Patient::new(Arc::new(refusing)).read_at(FileName::Segment(1), 0, &mut Page::zeros(1));
            assert_eq!(read.is_ok(), reads, "{errno}");
        }
    }
}
