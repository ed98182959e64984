//! `admin`: how long an operator waits for answers while very much is queued. Searches, timelines, metrics, the console's sums.
//!
//! The real program holds the messages, in a few queues and then in very many; each was received and logged and waits. In: how many.
//! Out: a table a number of queues, and for a complete benchmark a file in `bench/results`. An answer that is wrong makes the figures
//! void; one that is slow does not.

mod ask;
mod fill;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;

use crate::daemon::Daemon;
use crate::http::get;
use crate::machine::Facts;
use crate::results::{Keep, Results};
use crate::stage::{Place, Programs, Stage, built_program};
use crate::stats::median;
use crate::table::{Table, figure};
use crate::wait::until;

use ask::{Asked, Questions};

/// Options of `admin`.
#[derive(clap::Args)]
pub struct Options {
    /// Folder with the built `postrider` [default: this program's own]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
    /// Messages that wait
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1000..=9_999_999))]
    messages: u64,
    /// Queues to spread them over (repeatable) [default: 4, and as many as messages]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    queues: Vec<u64>,
    #[command(flatten)]
    keep: Keep,
    #[command(flatten)]
    place: Place,
}

/// What waits: message `n` is of sender-`n` to user-`n`, in the queue of domain `n` modulo `queues`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// How many.
    pub messages: u64,
    /// In how many queues.
    pub queues: u64,
}

/// Measures.
///
/// # Errors
/// A program fails, or an answer is wrong.
pub fn admin(options: &Options) -> anyhow::Result<()> {
    let binary = built_program(options.bin.as_deref())?;
    options.place.act(|stage| {
        let programs = stage.install(&binary, "bin")?;
        let facts = Facts::gather(&stage.logs())?;
        let (mut tables, mut faults) = (Vec::new(), Vec::new());
        for backlog in options.backlogs() {
            eprintln!("{} messages in {} queue(s)", backlog.messages, backlog.queues);
            let answers = play(stage, &programs, backlog)?;
            tables.push(table(backlog, &answers));
            let of_these = answers.iter().flat_map(|(name, asked)| asked.iter().map(move |one| (name, one)));
            let wrong = of_these.filter_map(|(name, one)| one.fault.as_ref().map(|fault| (name, fault)));
            faults.extend(wrong.map(|(name, fault)| format!("{name}, {} queue(s): {fault}", backlog.queues)));
        }
        let complete = options.messages >= 1_000_000 && options.queues.is_empty() && faults.is_empty();
        let title = "Answers to operators";
        let results = Results { suffix: "-admin", title, facts: &facts, tables: &tables, legend: LEGEND };
        options.keep.conclude(complete, &results)?;
        if !faults.is_empty() {
            bail!("answers are wrong: {}", faults.join("; "));
        }
        Ok(())
    })
}

impl Options {
    fn backlogs(&self) -> Vec<Backlog> {
        let queues = if self.queues.is_empty() { vec![4, self.messages] } else { self.queues.clone() };
        let backlog = |queues: u64| Backlog { messages: self.messages, queues: queues.min(self.messages) };
        queues.into_iter().map(backlog).collect()
    }
}

/// A question, and the answers to it.
type Answers = Vec<(&'static str, Vec<Asked>)>;

fn play(stage: &Stage, programs: &Programs, backlog: Backlog) -> anyhow::Result<Answers> {
    let name = format!("admin-{}", backlog.queues);
    let folder = stage.spool(&name)?;
    let environment = vec![
        ("BACKLOG_DIR", folder.clone().into()),
        ("BACKLOG_DUE", fill::tomorrow()?.into()),
        // Nobody is sent anything.
        ("BACKLOG_BULK", "127.0.0.1:9".into()),
    ];
    let mut daemon = Daemon::start(stage, programs, &name, "backlog.lua", environment)?;
    fill::fill(daemon.http, backlog)?;
    let questions = Questions { http: daemon.http, backlog };
    until("all messages in queues and in the log", QUEUED_LIMIT, || {
        daemon.ensure_alive()?;
        let queued = overview(daemon.http)?["messages"].as_u64();
        Ok((queued == Some(backlog.messages) && questions.last_is_logged()?).then_some(()))
    })?;
    let mut answers: Answers = vec![("/metrics, the first", vec![questions.metrics(false)?])];
    // A page of very many queues tells what was counted last: until that is these.
    until("all messages in the metrics", QUEUED_LIMIT, || Ok(questions.metrics(true)?.fault.is_none().then_some(())))?;
    answers.push(("/metrics, later", times(|_| questions.metrics(true))?));
    answers.push(("overview", times(|_| questions.overview())?));
    answers.push(("queues summed up by domain", times(|_| questions.survey())?));
    answers.push(("search by recipient", times(|time| questions.by_address("recipient", time))?));
    answers.push(("search by sender", times(|time| questions.by_address("sender", time))?));
    answers.push(("search by domain", times(|time| questions.by_domain(time))?));
    answers.push(("search by id", times(|time| questions.by_id(time))?));
    answers.push(("search that finds nothing", times(|time| questions.nothing(time))?));
    answers.push(("timeline", times(|time| questions.timeline(time))?));
    daemon.stop()?;
    stage.sweep(&folder);
    Ok(answers)
}

/// Asks so often that a median means something.
fn times(ask: impl Fn(u64) -> anyhow::Result<Asked>) -> anyhow::Result<Vec<Asked>> {
    (0..TIMES).map(ask).collect()
}

/// `GET /api/admin/overview/v1`.
///
/// # Errors
/// It is not answered.
pub fn overview(http: std::net::SocketAddr) -> anyhow::Result<Value> {
    let text = get(http, "/api/admin/overview/v1").context("the overview")?;
    serde_json::from_str(&text).with_context(|| format!("the overview is {text}"))
}

fn table(backlog: Backlog, answers: &Answers) -> Table {
    let head = format!("{} messages, {} queue(s)", backlog.messages, backlog.queues);
    let mut table = Table::new(&[&head, "ms", "at most", "requests", "all of them, ms", "aim, ms"]);
    for (name, asked) in answers {
        let of = |figure: fn(&Asked) -> f64| asked.iter().map(figure);
        let slowest = |one: &Asked| one.slowest_ms;
        let cells = [
            median(of(slowest)),
            of(slowest).reduce(f64::max),
            median(of(|one| one.requests as f64)),
            median(of(|one| one.all_ms)),
        ];
        let [ms, max, requests, all] = cells;
        let cells = [figure(ms, 1), figure(max, 1), figure(requests, 0), figure(all, 1), AIM_MS.to_owned()];
        table.row(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    table
}

/// Of each question; the first page of metrics can be had once.
const TIMES: u64 = 5;
const AIM_MS: &str = "100";
/// Very many queues are counted at least every minute.
const QUEUED_LIMIT: Duration = Duration::from_secs(300);
const LEGEND: &str = "\
Each message was taken over HTTP, is logged, has a sender and a recipient of its own, and waits until tomorrow. The program is
asked from the same machine, each time over a new connection, five times each (for what is asked about one message, about
another one each time); nothing else goes on.

- ms: the median time from before the connection until all of an answer was read; of an answer of several pages that of its slowest.
- at most: the longest of them.
- requests: pages asked for until all that there is was found, fifty messages of a domain at most; a page may end early, so that no
  answer takes long.
- all of them: the median time for all of those pages.
- search by domain: among the queues; by recipient and sender: in the log.
- Answers are compared with what was sent; a wrong one makes the figures void.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_queues_and_as_many_as_messages() {
        let options = |queues: &[u64]| Options {
            bin: None,
            messages: 20_000,
            queues: queues.to_vec(),
            keep: Keep::default(),
            place: Place::default(),
        };
        let queues = |given: &[u64]| -> Vec<u64> { options(given).backlogs().iter().map(|of| of.queues).collect() };
        assert_eq!(queues(&[]), [4, 20_000]);
        assert_eq!(queues(&[7, 50_000]), [7, 20_000]);
    }

    #[test]
    fn a_row_a_question() {
        let asked = |slowest_ms| Asked { slowest_ms, all_ms: 2.0 * slowest_ms, requests: 2, fault: None };
        let answers = vec![("search", vec![asked(3.0), asked(1.0), asked(8.0)])];
        let text = table(Backlog { messages: 9, queues: 4 }, &answers).markdown();
        let row = text.lines().last().expect("a row");
        let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["search", "3.0", "8.0", "2", "6.0", "100"]);
        assert!(text.starts_with("| 9 messages, 4 queue(s)"), "{text}");
    }
}
