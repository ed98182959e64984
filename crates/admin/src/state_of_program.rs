//! `GET /api/admin/memory/stats` and `GET /api/admin/task-dump`: what is in memory, and what threads and tasks do.
//!
//! KumoMTA's endpoints; their text is for people, here as there, and may change. In: what the program has in hand, and the kernel's words
//! about our threads, twice, so that it shows who works. Out: some dozen lines however much there is: threads that are alike are one
//! line, of connections those are named that have done one thing longest. No address of a message, no word of a script, no key. What
//! the kernel does not tell is left out. One asks at a time, for either; others are refused.

use crate::answer::Failed;
use crate::daemon::{Daemon, InHand, InMemory};
use crate::query::Query;
use axum::extract::State;
use engine::{LONGEST_MAX, Looking, Workload};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Handle, RuntimeMetrics};

/// How long it may take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfDump {
    /// Seconds. Threads are watched for a fifth of it, a second at most.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = SECONDS_MAX))]
    timeout: u64,
}

/// A thread at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    name: String,
    /// As the kernel writes it: R runs, S sleeps, D waits for a disk.
    state: char,
    /// Hundredths of a second of work, ever.
    worked: u64,
}

pub(crate) async fn memory<D: Daemon>(State(daemon): State<D>) -> Result<String, Failed> {
    Ok(memory_text(&turn(&daemon)?.in_memory().await))
}

pub(crate) async fn tasks<D: Daemon>(
    State(daemon): State<D>,
    Query(OfDump { timeout }): Query<OfDump>,
) -> Result<String, Failed> {
    if !(1..=SECONDS_MAX).contains(&timeout) {
        return Err(Failed::bad(format!("timeout: {timeout}: expected seconds from 1 to {SECONDS_MAX}")));
    }
    let turn = turn(&daemon)?;
    let watched = (Duration::from_secs(timeout) / WATCHED_SHARE).min(WATCHED_MAX);
    let before = look().await?;
    tokio::time::sleep(watched).await;
    let after = look().await?;
    let mut text = threads_text(&before, &after, watched) + "\n";
    text.push_str(&runtime_text("the runtime", &Handle::current().metrics()));
    text.push_str(&turn.tasks().await);
    Ok(text)
}

fn runtime_text(of: &str, runtime: &RuntimeMetrics) -> String {
    let (alive, queued, workers) = (runtime.num_alive_tasks(), runtime.global_queue_depth(), runtime.num_workers());
    format!("tasks of {of}: {alive} alive, {queued} ready that no worker has taken yet, {workers} workers\n")
}

/// Such questions cost the more the more there is, and come when a program is in trouble.
fn turn<D: Daemon>(daemon: &D) -> Result<impl InHand + '_, Failed> {
    let busy = || Failed::unavailable("memory/stats or task-dump is asked for already: one at a time".to_owned());
    daemon.look().ok_or_else(busy)
}

/// All threads, by their numbers. The kernel answers from memory, but there may be hundreds of them.
async fn look() -> Result<BTreeMap<u64, Thread>, Failed> {
    let looked = tokio::task::spawn_blocking(|| threads(Path::new("/proc/self/task"))).await;
    looked.map_err(|error| Failed::internal(format!("a thread to look at threads: {error}")))
}

fn threads(tasks: &Path) -> BTreeMap<u64, Thread> {
    let entries = fs::read_dir(tasks).into_iter().flatten().flatten();
    let read = entries.filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, Thread::parse(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
    });
    read.take(THREADS_MAX).collect()
}

impl Thread {
    /// A line of `stat`: number, name in brackets, state, and numbers, of which the 14th and 15th are time worked.
    fn parse(stat: &str) -> Option<Thread> {
        let (head, rest) = stat.rsplit_once(')')?;
        let name = head.split_once('(')?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let worked = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        Some(Thread { name: name.to_owned(), state: fields.first()?.chars().next()?, worked })
    }
}

fn threads_text(before: &BTreeMap<u64, Thread>, after: &BTreeMap<u64, Thread>, watched: Duration) -> String {
    #[derive(Default)]
    struct Alike {
        count: usize,
        states: BTreeMap<char, usize>,
        worked: u64,
    }
    let mut all: BTreeMap<&str, Alike> = BTreeMap::new();
    for (number, thread) in after {
        let alike = all.entry(&thread.name).or_default();
        alike.count += 1;
        *alike.states.entry(thread.state).or_default() += 1;
        // One that was not there before began meanwhile.
        let so_far = before.get(number).filter(|earlier| earlier.name == thread.name).map_or(0, |one| one.worked);
        alike.worked += thread.worked.saturating_sub(so_far);
    }
    let mut lines: Vec<(&str, Alike)> = all.into_iter().collect();
    lines.sort_by(|(a, one), (b, other)| other.worked.cmp(&one.worked).then(a.cmp(b)));
    let mut text = format!("threads: {}, watched for {} ms\n", after.len(), watched.as_millis());
    for (name, alike) in lines.iter().take(NAMES_MAX) {
        let states: Vec<String> =
            alike.states.iter().map(|(state, count)| format!("{count} {}", word(*state))).collect();
        let percent = alike.worked as f64 / (watched.as_secs_f64() * TICKS_A_SECOND) * 100.0;
        let (count, states) = (alike.count, states.join(", "));
        let _ = writeln!(text, "  {count:>4} {name:<16} {percent:>4.0}% of a core  {states:<28} {}", duty(name));
    }
    if lines.len() > NAMES_MAX {
        let _ = writeln!(text, "  and threads of {} further names", lines.len() - NAMES_MAX);
    }
    text
}

fn memory_text(InMemory { memory, held }: &InMemory) -> String {
    let mut text = String::from("memory\n");
    for (name, value) in memory {
        let _ = writeln!(text, "  {name:<28} {value}");
    }
    text.push_str("what is in it\n");
    for (name, value) in held {
        let _ = writeln!(text, "  {name:<28} {value}");
    }
    text
}

/// The mail server's.
impl InHand for Looking<'_> {
    async fn in_memory(&self) -> InMemory {
        let Workload { sizes, content, unspooled, memory, phases, spool_backlog, .. } = self.workload().await;
        let held = vec![
            ("messages", sizes.messages),
            ("content_of_queued_bytes", content.0),
            ("content_of_queued_bytes_max", content.1),
            ("content_in_memory_alone_bytes", unspooled),
            ("scheduled_queues", sizes.scheduled_queues),
            ("ready_queues", sizes.ready_queues),
            ("orders", sizes.orders),
            ("connections_out", phases.values().sum()),
            ("spool_batches_waiting", spool_backlog),
        ];
        InMemory { memory, held }
    }

    async fn tasks(&self) -> String {
        tasks_text(&self.workload().await)
    }
}

fn tasks_text(workload: &Workload) -> String {
    let mut text = runtime_text("the crowd of sessions", &workload.crowd);
    text.push_str("tasks of the server\n");
    for (what, count) in &workload.tasks {
        let _ = writeln!(text, "  {count:>6} {what}");
    }
    let _ = writeln!(text, "  {:>6} batches wait for the spool's writer", workload.spool_backlog);
    text.push_str("outbound connections by what they do\n");
    if workload.phases.is_empty() {
        text.push_str("  none\n");
    }
    for (phase, count) in &workload.phases {
        let _ = writeln!(text, "  {count:>6} {phase}");
    }
    if !workload.longest.is_empty() {
        let _ = writeln!(text, "those that have done one thing longest ({LONGEST_MAX} at most)");
    }
    for (ready, view) in &workload.longest {
        let host = view.detail.as_deref().unwrap_or("no host yet");
        let seconds = view.time_in_phase.as_secs_f64();
        let (phase, session) = (view.phase.name(), view.session_id);
        let _ = writeln!(text, "  {seconds:>8.1} s {phase:<22} {ready} {host} session {session}");
    }
    text
}

/// What the kernel's letter means.
fn word(state: char) -> &'static str {
    match state {
        'R' => "at work",
        'S' | 'I' => "waiting",
        'D' => "stuck in the disk",
        'T' | 't' => "stopped",
        'Z' | 'X' => "dead",
        _ => "elsewhere",
    }
}

/// What threads of a name are for.
fn duty(name: &str) -> &'static str {
    let known = DUTIES.iter().find(|(begin, _)| name.starts_with(begin));
    known.map_or("", |(_, duty)| duty)
}

fn five() -> u64 {
    5
}

/// Names as the kernel cuts them, and what those threads do. The first that fits counts.
const DUTIES: [(&str, &str); 11] = [
    ("tokio-r", "sessions, deliveries, HTTP, policy; and what may block: name look-ups of the system, files"),
    ("crowd", "sessions that came while there were many; and what of theirs may block"),
    ("spool-writer", "writes and syncs the spool: what it waits for, every 250 waits for"),
    ("spool-recovery", "reads the mail of earlier runs"),
    ("logs", "compresses and writes log segments"),
    ("event stream", "posts log records to another system"),
    ("event readers", "reads log segments for who asks for events"),
    ("policy task", "a task of the policy (kumo.spawn_task)"),
    ("jsonl", "writes segments of JSON lines for scripts"),
    ("tls-reports", "counts TLS sessions for reports"),
    ("dmarc-reports", "counts DMARC checks for reports"),
];
/// Longest time a dump may take.
const SECONDS_MAX: u64 = 60;
/// Threads are watched for one part in so many of it.
const WATCHED_SHARE: u32 = 5;
/// And at most so long.
const WATCHED_MAX: Duration = Duration::from_secs(1);
/// Threads that are looked at.
const THREADS_MAX: usize = 4096;
/// Names of threads that are shown.
const NAMES_MAX: usize = 40;
/// Linux counts time worked in hundredths of a second, whatever its clock.
const TICKS_A_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(name: &str, state: char, worked: u64) -> Thread {
        Thread { name: name.to_owned(), state, worked }
    }

    #[test]
    fn a_thread_is_read_as_the_kernel_writes_it_whatever_its_name() {
        let stat = "17 (a) b (c) R 1 17 17 0 -1 4194560 1 2 3 4 30 12 0 0 20 0 9 0 100 1 1";
        assert_eq!(Thread::parse(stat), Some(thread("a) b (c", 'R', 42)));
        assert_eq!(Thread::parse("17 (cut"), None);
        let ours = threads(Path::new("/proc/self/task"));
        assert!(!ours.is_empty() && ours.values().all(|thread| thread.state.is_ascii_alphabetic()), "{ours:?}");
        assert!(threads(Path::new("/nonexistent")).is_empty());
    }

    #[test]
    fn threads_that_are_alike_are_a_line_and_who_works_most_is_first() {
        let before = BTreeMap::from([
            (1, thread("tokio-rt-worker", 'S', 100)),
            (2, thread("tokio-rt-worker", 'S', 100)),
            (3, thread("spool-writer", 'S', 10)),
            (4, thread("gone", 'S', 10)),
        ]);
        let mut after = BTreeMap::from([
            (1, thread("tokio-rt-worker", 'R', 150)),
            (2, thread("tokio-rt-worker", 'S', 125)),
            (3, thread("spool-writer", 'D', 15)),
        ]);
        let text = threads_text(&before, &after, Duration::from_millis(500));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "threads: 3, watched for 500 ms");
        assert!(lines[1].contains("   2 tokio-rt-worker   150% of a core  1 at work, 1 waiting "), "{text}");
        assert!(lines[2].contains("   1 spool-writer       10% of a core  1 stuck in the disk"), "{text}");
        for number in 0..NAMES_MAX as u64 {
            after.insert(10 + number, thread(&format!("policy {number}"), 'S', 0));
        }
        let text = threads_text(&before, &after, Duration::from_secs(1));
        assert!(
            text.ends_with("  and threads of 2 further names\n") && text.lines().count() == NAMES_MAX + 2,
            "{text}"
        );
    }
}
