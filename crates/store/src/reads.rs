//! Reads from the disk: as many at once as there are cores, and more beside those that take long.
//!
//! A read that finishes quickly is processor work: more of them at once only push aside the threads that serve connections,
//! and a reply that waits there is a delivery repeated after a crash. A read that takes long waits for the disk, and disks
//! that answer late want several questions at once. So each read has a turn, and one that is not done within
//! [`PATIENCE`] passes its turn on, up to a bound of reads in all.

use spool::SpoolError;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Who may read now.
#[derive(Debug)]
pub(crate) struct Reads {
    all: Arc<Semaphore>,
    turns: Semaphore,
    patience: Duration,
}

impl Reads {
    /// At most `max` reads at the same time, however slow the disk is.
    pub fn new(max: usize) -> Reads {
        let turns = available_parallelism().map_or(1, NonZeroUsize::get);
        Reads { all: Arc::new(Semaphore::new(max.max(1))), turns: Semaphore::new(turns), patience: PATIENCE }
    }

    /// Runs `read` on a thread that may wait, when it is its turn.
    ///
    /// # Errors
    /// `Closed` when the program is ending, and the read's own.
    pub async fn run<T, F>(&self, read: F) -> Result<T, SpoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, SpoolError> + Send + 'static,
    {
        let place = self.all.clone().acquire_owned().await.map_err(|_| SpoolError::Closed)?;
        let turn = self.turns.acquire().await.map_err(|_| SpoolError::Closed)?;
        // Whoever asked may give up: his thread is still at it.
        let mut reading = spawn_blocking(move || {
            let _place = place;
            read()
        });
        let done = match timeout(self.patience, &mut reading).await {
            Ok(done) => done,
            Err(_) => {
                drop(turn);
                reading.await
            }
        };
        done.map_err(|_| SpoolError::Closed)?
    }
}

/// Within this time a read is done that did not wait for the disk.
const PATIENCE: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::sync::{Condvar, Mutex};
    use tokio::task::JoinSet;

    /// Reads of a disk that does not answer until it is told to; they say when they begin.
    fn stuck(count: usize, max: usize) -> (JoinSet<Result<(), SpoolError>>, mpsc::Receiver<()>, impl Fn()) {
        let reads = Arc::new(Reads::new(max));
        let (begins, begun) = mpsc::channel();
        let gate = Arc::new((Mutex::new(false), Condvar::new()));
        let mut waiting = JoinSet::new();
        for _ in 0..count {
            let (reads, begins, gate) = (Arc::clone(&reads), begins.clone(), Arc::clone(&gate));
            waiting.spawn(async move {
                let read = move || {
                    begins.send(()).expect("the test listens");
                    let shut = gate.0.lock().expect("whole");
                    drop(gate.1.wait_timeout_while(shut, LONG, |open| !*open).expect("whole"));
                    Ok(())
                };
                reads.run(read).await
            });
        }
        let open = move || {
            *gate.0.lock().expect("whole") = true;
            gate.1.notify_all();
        };
        (waiting, begun, open)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_slow_disk_gets_more_at_once_up_to_the_bound() {
        let (waiting, begun, open) = stuck(20, 12);
        for n in 0..12 {
            begun.recv_timeout(LONG).unwrap_or_else(|e| panic!("read {n} did not begin: {e}"));
        }
        let more = begun.recv_timeout(PATIENCE * 20);
        open();
        let ended = waiting.join_all().await;
        assert!(more.is_err(), "more than the bound began");
        assert_eq!((ended.len(), ended.iter().filter(|end| end.is_ok()).count()), (20, 20));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_read_that_nobody_waits_for_any_more_has_its_place_until_it_is_done() {
        let reads = Arc::new(Reads::new(1));
        let ((begins, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
        let reader = reads.clone();
        let given_up = tokio::spawn(async move {
            let read = move || {
                begins.send(()).expect("the test listens");
                released.recv_timeout(LONG).expect("the test goes on");
                Ok(())
            };
            reader.run(read).await
        });
        begun.recv_timeout(LONG).expect("it begins");
        given_up.abort();
        assert!(given_up.await.is_err_and(|end| end.is_cancelled()));
        assert_eq!(reads.all.available_permits(), 0);
        release.send(()).expect("it reads");
        assert!(timeout(LONG, reads.run(|| Ok(()))).await.expect("its turn").is_ok());
    }

    #[tokio::test]
    async fn quick_reads_take_turns() {
        let reads = Reads { patience: Duration::from_secs(60), ..Reads::new(1_000) };
        let cores = reads.turns.available_permits();
        let (release, released) = mpsc::channel::<()>();
        let reading = reads.run(move || {
            // Ends when the test has looked.
            released.recv_timeout(LONG).expect("the test goes on");
            Ok(())
        });
        let looking = async {
            tokio::task::yield_now().await;
            let left = reads.turns.available_permits();
            release.send(()).expect("it reads");
            left
        };
        let (read, left) = tokio::join!(reading, looking);
        assert!(read.is_ok());
        assert_eq!((left, reads.turns.available_permits()), (cores - 1, cores));
    }

    /// Nothing here takes so long.
    const LONG: Duration = Duration::from_secs(10);
}
