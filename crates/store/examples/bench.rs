//! Measures the spool alone: appends and removals from many tasks, on real files.
//!
//! `bench [DIR] [SECONDS] [TASKS] [OCTETS] [LINGER_US]` prints one line: durable messages a second, CPU of the
//! whole process per message (tasks and writer together), commits and syncs a message, octets written per octet
//! of mail, and how long an append took.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, IdGenerator, Meta, Sealed, TlsDemand};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use smtp_wire::{Mailbox, ReversePath};
use spool::Mark;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Linger, Options, SpoolHandle};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let dir = args.get(1).map_or_else(|| std::env::temp_dir().join("spool-bench"), PathBuf::from);
    let (seconds, tasks, octets) = (number(2, 5), number(3, 64), number(4, 10_000));
    let longest = Duration::from_micros(number(5, 1000));
    let options = Options { linger: Linger { few: longest, many: longest }, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(dir, Duration::from_secs(seconds), tasks, octets as usize, options));
}

async fn run(dir: PathBuf, time: Duration, tasks: u64, octets: usize, options: Options) {
    let (spool, _) = store::open(&dir, options).expect("a usable directory");
    let ids = Arc::new(Mutex::new(IdGenerator::new([1, 2, 3, 4, 5, 6], 7)));
    // Segments get recycled before the measurement begins.
    work(&spool, &ids, Duration::from_secs(1), tasks, octets).await;
    let (before, cpu_before, started) = (spool.stats(), cpu_us(), Instant::now());
    let mut latencies = work(&spool, &ids, time, tasks, octets).await;
    let (after, cpu, elapsed) = (spool.stats(), cpu_us() - cpu_before, started.elapsed());
    latencies.sort_unstable();
    let messages = (after.appended_messages - before.appended_messages) as f64;
    let per_message = |part: u64| part as f64 / messages;
    let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or(0);
    println!(
        "octets {octets} tasks {tasks}: {:.0} msg/s, {:.1} us CPU, {:.4} commits and {:.4} syncs a message, write amplification {:.3}, append p50 {} us p99 {} us p99.9 {} us, disk {} MiB",
        messages / elapsed.as_secs_f64(),
        cpu as f64 / messages,
        per_message(after.log.commits - before.log.commits),
        per_message(after.log.syncs - before.log.syncs),
        (after.log.octets_written - before.log.octets_written) as f64
            / (after.appended_octets - before.appended_octets) as f64,
        at(500),
        at(990),
        at(999),
        after.log.disk_octets >> 20,
    );
    spool.close().await.expect("the writer ends well");
}

/// All tasks append and remove until the time is up; the latencies of the appends in microseconds.
async fn work(
    spool: &SpoolHandle,
    ids: &Arc<Mutex<IdGenerator>>,
    time: Duration,
    tasks: u64,
    octets: usize,
) -> Vec<u64> {
    let end = Instant::now() + time;
    let body: Vec<u8> = (0..octets - 500).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let (body, head) = (Bytes::from(body), Bytes::from(vec![b'h'; 500]));
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (spool, ids, head, body) = (spool.clone(), Arc::clone(ids), head.clone(), body.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                while Instant::now() < end {
                    let id = ids.lock().expect("no panic").next(WallTime::from_unix_secs(1_790_000_000));
                    let mailbox = Mailbox::parse("someone@example.com").expect("an address");
                    let envelope = Envelope {
                        sender: ReversePath(Some(mailbox.clone())),
                        recipients: vec![mailbox],
                        dsn: None,
                        tls: TlsDemand::Usual,
                    };
                    let sealed = Sealed {
                        id,
                        envelope,
                        meta: Meta::new(),
                        head: head.clone(),
                        body: body.clone().into(),
                        due: WallTime::EPOCH,
                    };
                    let began = Instant::now();
                    spool.append(vec![vec![sealed]]).await.expect("durable");
                    latencies.push(began.elapsed().as_micros() as u64);
                    spool.mark(Mark::Removed { id });
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in running {
        latencies.extend(task.await.expect("no panic"));
    }
    latencies
}

fn cpu_us() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("always there");
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}
