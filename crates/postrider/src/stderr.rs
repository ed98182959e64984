//! The diagnostic log on stderr, which holds nobody up.
//!
//! In: lines, each in one write. Out: the same lines on stderr, for as long as whoever is at its other end reads them. While he does not
//! (a collector that hangs, a terminal that is stopped), lines are dropped and counted, and the next one that goes says how many:
//! whoever logs is a thread that also carries mail. Fails as a write does, never for want of a reader.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Stderr, StderrLock, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A way out; clones are of one.
pub(crate) struct Unheld<W> {
    out: Arc<W>,
    /// How long the first line waits that nobody reads.
    patience: Duration,
    /// Lines that were dropped and not told of yet.
    lost: Arc<AtomicU64>,
}

/// What can be had for one thread at a time.
pub(crate) trait Shared {
    /// It, as this thread has it.
    type Held<'a>: Write + AsFd
    where
        Self: 'a;

    /// Waits for its turn.
    fn held(&self) -> Self::Held<'_>;
}

impl Shared for Stderr {
    type Held<'a> = StderrLock<'static>;

    fn held(&self) -> StderrLock<'static> {
        self.lock()
    }
}

impl<W> Clone for Unheld<W> {
    fn clone(&self) -> Unheld<W> {
        Unheld { out: self.out.clone(), patience: self.patience, lost: self.lost.clone() }
    }
}

impl<W> Unheld<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Unheld<W> {
        Unheld { out: Arc::new(out), patience: PATIENCE, lost: Arc::default() }
    }
}

impl<W: Shared> Write for Unheld<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut out = self.out.held();
        let patience = if self.lost.load(Ordering::Relaxed) == 0 { self.patience } else { Duration::ZERO };
        let lose = |line: &[u8]| {
            self.lost.fetch_add(1, Ordering::Relaxed);
            Ok(line.len())
        };
        if !is_read(&out, patience)? {
            return lose(line);
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            writeln!(out, "{lost} lines of the diagnostic log were dropped: nobody read them")?;
        }
        for part in line.chunks(AT_ONCE) {
            if !is_read(&out, self.patience)? {
                return lose(line);
            }
            out.write_all(part)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether there is room for [`AT_ONCE`] octets within so long. An end that is closed says so when it is written to.
fn is_read(out: &impl AsFd, patience: Duration) -> io::Result<bool> {
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
    Ok(poll(&mut [PollFd::new(out.as_fd(), PollFlags::POLLOUT)], timeout)? > 0)
}

/// How long the first line waits that nobody reads.
const PATIENCE: Duration = Duration::from_secs(1);
/// Octets for which there is room in a pipe that has any (PIPE_BUF, pipe(7)).
const AT_ONCE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeWriter, Read};
    use std::time::Instant;

    impl Shared for PipeWriter {
        type Held<'a> = &'a PipeWriter;

        fn held(&self) -> &PipeWriter {
            self
        }
    }

    #[test]
    fn lines_that_nobody_reads_hold_nobody_up_and_are_counted() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut log = Unheld { patience: Duration::from_millis(10), ..Unheld::new(writer) };
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        let begun = Instant::now();
        for _ in 0..10_000 {
            log.write_all(&line).expect("as if it went");
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let lost = log.lost.load(Ordering::Relaxed);
        assert!(lost > 9_000, "a pipe has an end: {lost}");
        let mut read = vec![0; line.len() * (10_000 - lost as usize)];
        reader.read_exact(&mut read).expect("what went");
        assert!(read == line.repeat(10_000 - lost as usize), "whole lines");
        log.write_all(b"next\n").expect("goes");
        drop(log);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, format!("{lost} lines of the diagnostic log were dropped: nobody read them\nnext\n"));
    }

    #[test]
    fn long_lines_go_whole() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let mut log = Unheld::new(writer);
        let line = b"long ".repeat(4000);
        log.write_all(&line).expect("goes");
        drop(log);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("reads");
        assert!(read == line);
    }
}
