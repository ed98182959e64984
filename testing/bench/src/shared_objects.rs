//! What all cores share, by itself: the server's real objects, and nothing but threads that use them. In: runs, operations. Out:
//! a table of CPU an operation and of the share of locks that were found taken, by the number of threads.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;

use anyhow::Context as _;
use clock::WallTime;
use message::IdGenerator;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tokio::sync::Semaphore;
use watched::Watched;

use crate::machine::cores;
use crate::queue_pass::QueuePass;
use crate::stats::median;
use crate::table::{Table, figure};

/// One of them.
#[derive(Clone, Copy)]
enum Object {
    Ids,
    Counter,
    Permits,
    Queues,
}

/// What a number of threads paid.
#[derive(Clone, Copy)]
struct Paid {
    /// CPU an operation, in nanoseconds.
    cpu_ns: f64,
    /// Of an operation's locks, those that were found taken, in percent.
    taken: f64,
}

/// Measures each, `runs` times, with one of so many parts of the operations.
///
/// # Errors
/// An object did not do its work; a core cannot be chosen.
pub fn shared_objects(runs: u32, part: u64) -> anyhow::Result<Table> {
    let mut table = Table::new(&COLUMNS);
    for (object, name) in OBJECTS {
        for threads in [1, cores(), 8 * cores(), 32 * cores()] {
            let paid = (0..runs)
                .map(|_| object.by(threads, object.operations() / part))
                .collect::<anyhow::Result<Vec<Paid>>>()?;
            table.row(vec![
                format!("{name}, {threads} threads"),
                figure(median(paid.iter().map(|paid| paid.cpu_ns)), 0),
                figure(median(paid.iter().map(|paid| paid.taken)), 2),
            ]);
        }
    }
    Ok(table)
}

impl Object {
    /// Of each thread, so that they overlap however short one is.
    fn operations(self) -> u64 {
        match self {
            Object::Queues => 20_000,
            Object::Ids | Object::Counter | Object::Permits => 200_000,
        }
    }

    /// So many threads, each so many times.
    fn by(self, threads: usize, operations: u64) -> anyhow::Result<Paid> {
        match self {
            Object::Ids => {
                let ids = Watched::new(IdGenerator::new([1; 6], 1));
                let paid = spread(threads, operations, || {
                    black_box(ids.lock().next(WALL));
                    Ok(())
                })?;
                Ok(paid.with(ids.waits(), threads as u64 * operations))
            }
            Object::Counter => {
                let counter = telemetry::Metrics::new()?.spool_set_aside.clone();
                spread(threads, operations, || {
                    counter.inc();
                    Ok(())
                })
            }
            Object::Permits => {
                let permits = Semaphore::new(1 << 20);
                spread(threads, operations, || {
                    drop(permits.try_acquire_many(10)?);
                    Ok(())
                })
            }
            Object::Queues => {
                let (ids, queues) = (Watched::new(IdGenerator::new([1; 6], 1)), Watched::new(QueuePass::new(WALL)));
                let paid = spread(threads, operations, || {
                    queues.lock().admit(&mut ids.lock());
                    queues.lock().hand_out()
                })?;
                Ok(paid.with(queues.waits(), 2 * threads as u64 * operations))
            }
        }
    }
}

impl Paid {
    fn with(self, waits: u64, locks: u64) -> Paid {
        Paid { taken: 100.0 * waits as f64 / locks as f64, ..self }
    }
}

/// So many operations on each of so many threads, which begin at once; up to as many as there are cores have one each.
fn spread(threads: usize, operations: u64, operation: impl Fn() -> anyhow::Result<()> + Sync) -> anyhow::Result<Paid> {
    let ready = AtomicUsize::new(0);
    let allowed = sched_getaffinity(SELF).context("the cores of this process")?;
    let mut all = (0..CpuSet::count()).filter(|core| allowed.is_set(*core) == Ok(true));
    let one = |core: Option<usize>| -> anyhow::Result<f64> {
        let chosen = core.map_or(Ok(()), stay_on);
        // Also when that failed: the others wait for it.
        ready.fetch_add(1, Ordering::AcqRel);
        while ready.load(Ordering::Acquire) < threads {
            std::thread::yield_now();
        }
        chosen?;
        let before = cpu_ns()?;
        (0..operations).try_for_each(|_| operation())?;
        Ok(cpu_ns()? - before)
    };
    let spent: anyhow::Result<f64> = scope(|scope| {
        let own = threads <= cores();
        let running: Vec<_> = (0..threads).map(|_| own.then(|| all.next()).flatten()).collect();
        let running: Vec<_> = running.into_iter().map(|core| scope.spawn(move || one(core))).collect();
        running.into_iter().map(|thread| thread.join().map_err(|_| anyhow::anyhow!("an operation panicked"))?).sum()
    });
    Ok(Paid { cpu_ns: spent? / (operations * threads as u64) as f64, taken: 0.0 })
}

fn stay_on(core: usize) -> anyhow::Result<()> {
    let mut only = CpuSet::new();
    only.set(core).and_then(|()| sched_setaffinity(SELF, &only)).context("choosing a core")
}

/// User and system time of this thread.
fn cpu_ns() -> anyhow::Result<f64> {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).context("the time of a thread")?;
    Ok(used.tv_sec() as f64 * 1e9 + used.tv_nsec() as f64)
}

const OBJECTS: [(Object, &str); 4] = [
    (Object::Ids, "a message id"),
    (Object::Counter, "a counter"),
    (Object::Permits, "10 of the spool's permits, and back"),
    (Object::Queues, "a message in and out of the queues"),
];
const COLUMNS: [&str; 3] = ["what all share, by itself", "CPU ns/op", "locks found taken %"];
/// The calling thread.
const SELF: Pid = Pid::from_raw(0);
/// Any: the clock stands still.
const WALL: WallTime = WallTime::EPOCH;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn all_operations_are_done_and_paid_for() {
        let done = AtomicU64::new(0);
        let paid = spread(4, 10_000, || {
            done.fetch_add(1, Ordering::Relaxed);
            black_box((0..100_u64).sum::<u64>());
            Ok(())
        });
        assert_eq!(done.into_inner(), 40_000);
        assert!(paid.expect("measured").cpu_ns > 0.0);
        assert!(spread(2, 10, || anyhow::bail!("no")).is_err());
    }

    #[test]
    fn each_object_does_its_work() {
        for (object, name) in OBJECTS {
            let paid = object.by(2, 100).expect(name);
            assert!((0.0..=100.0).contains(&paid.taken), "{name}: {}", paid.taken);
        }
    }
}
