//! Measures a spool of one file per message: appends and removals from many tasks, on real files.
//!
//! `local_load [DIR] [SECONDS] [TASKS] [OCTETS]` prints one line: durable messages a second, CPU of the whole process per
//! message, sync calls a message, how long an append took. Each task removes a message 16 appends later.

use bytes::Bytes;
use clock::WallTime;
use message::{Envelope, IdGenerator, Meta, Sealed, TlsDemand};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use smtp_wire::{Mailbox, ReversePath};
use spool::Mark;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::{Kind, Options, SpoolHandle};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let dir = args.get(1).map_or_else(|| std::env::temp_dir().join("local-load"), PathBuf::from);
    let (seconds, tasks, octets) = (number(2, 5), number(3, 64), number(4, 10_000));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run(dir, Duration::from_secs(seconds), tasks, octets as usize));
}

async fn run(dir: PathBuf, time: Duration, tasks: u64, octets: usize) {
    let (spool, recovering) =
        store::open(&dir, Options { kind: Kind::Files, ..Options::default() }).expect("a usable directory");
    recovering.all().await.expect("an earlier load's files");
    let ids = Arc::new(Mutex::new(IdGenerator::new([1, 2, 3, 4, 5, 6], std::process::id() as u16)));
    work(&spool, &ids, Duration::from_millis(500), tasks, octets).await;
    let (before, cpu_before, started) = (spool.stats(), cpu_us(), Instant::now());
    let mut latencies = work(&spool, &ids, time, tasks, octets).await;
    spool.flush().await.expect("removals are durable");
    let (after, cpu, elapsed) = (spool.stats(), cpu_us() - cpu_before, started.elapsed());
    latencies.sort_unstable();
    let messages = (after.appended_messages - before.appended_messages) as f64;
    let at = |part: usize| latencies.get(latencies.len() * part / 1000).copied().unwrap_or(0);
    println!(
        "octets {octets} tasks {tasks}: {:.0} msg/s, {:.1} us CPU, {:.2} syncs a message, append p50 {} us p99 {} us p99.9 {} us",
        messages / elapsed.as_secs_f64(),
        cpu as f64 / messages,
        (after.log.syncs - before.log.syncs) as f64 / messages,
        at(500),
        at(990),
        at(999),
    );
    assert_eq!(after.log.live_messages, 0, "all that was appended was removed");
    spool.close().await.expect("the threads end well");
}

/// All tasks append and remove until the time is up; the latencies of the appends in microseconds.
async fn work(
    spool: &SpoolHandle,
    ids: &Arc<Mutex<IdGenerator>>,
    time: Duration,
    tasks: u64,
    octets: usize,
) -> Vec<u64> {
    let until = Instant::now() + time;
    let body = incompressible(octets);
    let started: Vec<_> = (0..tasks)
        .map(|_| {
            let (spool, ids, body) = (spool.clone(), Arc::clone(ids), body.clone());
            tokio::spawn(async move {
                let (mut latencies, mut live) = (Vec::new(), VecDeque::new());
                while Instant::now() < until {
                    let message = sealed(&ids, &body);
                    let id = message.id;
                    let began = Instant::now();
                    spool.append(vec![vec![message]]).await.expect("durable");
                    latencies.push(began.elapsed().as_micros() as u64);
                    live.push_back(id);
                    if live.len() > LIVE_PER_TASK {
                        live.pop_front().into_iter().for_each(|id| spool.mark(Mark::Removed { id }));
                    }
                }
                live.into_iter().for_each(|id| spool.mark(Mark::Removed { id }));
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in started {
        latencies.extend(task.await.expect("ends"));
    }
    latencies
}

fn sealed(ids: &Mutex<IdGenerator>, body: &Bytes) -> Sealed {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let now = WallTime::from_unix_micros(now.as_micros() as i64);
    let id = ids.lock().expect("nobody panics").next(now);
    let mailbox = Mailbox::parse("someone@example.com").expect("an address");
    let envelope = Envelope { sender: ReversePath(None), recipients: vec![mailbox], dsn: None, tls: TlsDemand::Usual };
    let mut meta = Meta::new();
    meta.set("received_from", "192.0.2.1:12345");
    meta.set("tenant", "acme");
    Sealed { id, envelope, meta, head: Bytes::from_static(HEAD), body: body.clone().into(), due: now }
}

fn incompressible(octets: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut body = Vec::with_capacity(octets + 8);
    while body.len() < octets {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        body.extend_from_slice(&state.to_le_bytes());
    }
    body.truncate(octets);
    body.into()
}

/// User and system time of the process so far, in microseconds.
fn cpu_us() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("always known");
    usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
}

const HEAD: &[u8] = b"Received: from a.example by b.example; Sat, 21 Nov 2026 15:00:00 +0000\r\nSubject: load\r\nFrom: <a@example.com>\r\n";
/// Messages a task keeps before it removes the oldest.
const LIVE_PER_TASK: usize = 16;
