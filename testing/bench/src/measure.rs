//! A workload measured: a server and a sink for all its runs, the first of which only warms up. In: a [`Workload`]. Out: a
//! [`Row`], from which tables take medians and spreads.

use anyhow::Context as _;

use crate::audit::Verdict;
use crate::clock_factor::Clock;
use crate::load::{Load, WAITING};
use crate::postfix::{Peers, Postfix};
use crate::relay::Relay;
use crate::round::{Round, Running, Subject};
use crate::sink::Sink;
use crate::stage::{Programs, Stage};
use crate::stats::{median, spread};
use crate::table::figure;
use crate::workload::{Duty, Over, Workload};

/// What all workloads need.
pub struct Bench<'a> {
    /// Where.
    pub stage: &'a Stage,
    /// What is measured, and the tools.
    pub programs: Programs,
    /// The clock beside the runs.
    pub clock: Clock,
    /// Runs that count.
    pub runs: u32,
}

/// The runs of a workload.
pub struct Row {
    /// Of the workload, and of the server if it is not ours.
    pub name: String,
    /// Those that count.
    pub rounds: Vec<Round>,
    /// Over all of them; none of a server of many processes.
    pub peak_rss_mib: Option<f64>,
    /// None where nothing is delivered.
    pub verdict: Option<Verdict>,
}

impl<'a> Bench<'a> {
    /// Gets ready.
    ///
    /// # Errors
    /// There is no such program, or no clock.
    pub fn new(stage: &'a Stage, binary: &std::path::Path, runs: u32) -> anyhow::Result<Bench<'a>> {
        Ok(Bench { stage, programs: stage.install(binary, "bin")?, clock: Clock::new()?, runs })
    }

    /// Our own server at it; `file` names its files.
    ///
    /// # Errors
    /// A program fails, or a message is refused or stays behind.
    pub fn relay(&self, workload: &Workload, file: &str) -> anyhow::Result<Row> {
        let mut environment = workload.environment();
        let mut sink = match workload.duty {
            Duty::Relay(_) | Duty::Production(_) => Some(Sink::start(self.stage, &self.programs, file)?),
            Duty::Local => {
                let folder = self.stage.spool(&format!("{file}-mail"))?;
                let sink = Sink::files(&folder);
                environment.push(("LOCAL_MAIL", folder.into()));
                Some(sink)
            }
            Duty::Discard => None,
        };
        if let (Some(sink), Over::Http(2..)) = (&mut sink, workload.over) {
            // One id stands for all recipients of a request.
            sink.audit.by_recipient();
        }
        let to = sink.as_ref().map(|sink| sink.address);
        let mut relay = Relay::start_with(self.stage, &self.programs, file, workload.duty, to, environment)?;
        let rounds = self.rounds(workload, &mut relay, sink.as_mut(), file)?;
        let peak_rss_mib = Some(relay.peak_rss_mib()?);
        relay.stop(self.stage)?;
        let verdict = sink.map(Sink::stop).transpose()?;
        Ok(Row { name: workload.name(), rounds, peak_rss_mib, verdict })
    }

    /// A Postfix at it, with so many messages and such settings.
    ///
    /// # Errors
    /// As of [`Bench::relay`].
    pub fn postfix(
        &self,
        workload: &Workload,
        messages: u64,
        peers: &Peers,
        settings: &[&str],
        file: &str,
    ) -> anyhow::Result<Row> {
        let file = &format!("{file}-postfix");
        let (mut postfix, mut sink) = match workload.duty {
            Duty::Local => {
                let settings = [&MAILDIR[..], settings].concat();
                let postfix = Postfix::start(self.stage, peers, file, None, &settings)?;
                let sink = Sink::files(&postfix.folder().join("mail/box"));
                (postfix, sink)
            }
            _ => {
                let sink = Sink::start(self.stage, &self.programs, file)?;
                (Postfix::start(self.stage, peers, file, Some(sink.address), settings)?, sink)
            }
        };
        let workload = Workload { messages, ..workload.clone() };
        let rounds = self.rounds(&workload, &mut postfix, Some(&mut sink), file)?;
        postfix.stop(self.stage)?;
        let verdict = Some(sink.stop()?);
        Ok(Row { name: format!("Postfix: {}", workload.name()), rounds, peak_rss_mib: None, verdict })
    }

    fn rounds(
        &self,
        workload: &Workload,
        subject: &mut dyn Subject,
        mut sink: Option<&mut Sink>,
        file: &str,
    ) -> anyhow::Result<Vec<Round>> {
        let mut rounds = Vec::new();
        for number in 0..=self.runs {
            let order = workload.order(&format!("{file}-{number}"));
            let running =
                Running::begin(self.stage, &self.programs, &self.clock, subject, sink.as_deref_mut(), &order)?;
            let round = running.finish(subject, sink.as_deref_mut())?;
            eprintln!("  {}", progress(number, &round));
            round.ensure_empty().with_context(|| subject.last_words())?;
            rounds.push(round);
        }
        rounds.remove(0);
        Ok(rounds)
    }
}

impl Row {
    /// The median of a figure.
    pub fn middle(&self, pick: fn(&Round) -> f64) -> Option<f64> {
        median(self.rounds.iter().map(pick))
    }

    /// The median of a figure that not every run has.
    pub fn some(&self, pick: fn(&Round) -> Option<f64>) -> Option<f64> {
        median(self.rounds.iter().filter_map(pick))
    }

    /// From the lowest to the highest, in percent of the median.
    pub fn spread(&self, pick: fn(&Round) -> f64) -> Option<f64> {
        spread(self.rounds.iter().map(pick))
    }

    /// Messages a second from the first to the last: delivered, or accepted where nothing is delivered.
    pub fn rate(&self) -> Option<f64> {
        self.middle(Round::rate)
    }

    /// What limited it.
    pub fn limit(&self) -> String {
        let loads: Vec<Load> = self.rounds.iter().map(|round| round.load).collect();
        let words = Load::median_of(&loads).words();
        match self.middle(|round| round.accepted_per_s).zip(self.middle(|round| round.latency.p50_ms)) {
            // What nobody works at is waited for.
            Some((rate, p50_ms)) if words.starts_with(WAITING) => {
                format!("{words}; about {:.0} messages at a time, {p50_ms:.1} ms each for its 250", rate * p50_ms / 1e3)
            }
            _ => words,
        }
    }

    /// Messages lost, doubled and damaged; of what is thrown away by the server's count of what it has read; nothing is known of damage.
    pub fn ledger(&self) -> String {
        match (self.verdict, self.miscounted()) {
            (Some(of), _) => format!("{}/{}/{}", of.lost, of.doubled, of.damaged),
            (None, Some((lost, doubled))) => format!("{lost:.0}/{doubled:.0}/-"),
            (None, None) => "-".to_owned(),
        }
    }

    /// Messages that were acknowledged and not counted by who took them, and the other way round.
    fn miscounted(&self) -> Option<(f64, f64)> {
        let surplus = |round: &Round| round.received.map(|received| received - round.acknowledged);
        let surplus: Vec<f64> = self.rounds.iter().map(surplus).collect::<Option<_>>()?;
        let sum = |sign: f64| surplus.iter().map(|surplus| (surplus * sign).max(0.0)).sum();
        Some((sum(-1.0), sum(1.0)))
    }

    /// Why its figures are void, if they are.
    pub fn fault(&self) -> Option<String> {
        let fault = match (self.verdict, self.miscounted()) {
            (Some(verdict), _) => verdict.fault(false)?,
            (None, Some(wrong)) if wrong != (0.0, 0.0) => {
                format!("{:.0} acknowledged and not taken, {:.0} taken and not acknowledged", wrong.0, wrong.1)
            }
            _ => return None,
        };
        Some(format!("{} is void: {fault}", self.name))
    }
}

/// Why figures of ours, and of another's beside them, are void.
pub fn faults(ours: &Row, theirs: Option<&Row>) -> Vec<String> {
    [Some(ours), theirs].into_iter().flatten().filter_map(Row::fault).collect()
}

/// Has a Postfix put everything into one Maildir of its instance. It wants an absolute path, and may not pass the folders above
/// its instance: this one begins in its queue, where it works.
const MAILDIR: [&str; 6] = [
    "virtual_mailbox_domains=static:all",
    "virtual_mailbox_base=/proc/self/cwd/../mail",
    "virtual_mailbox_maps=static:box/",
    "virtual_uid_maps=static:8",
    "virtual_gid_maps=static:8",
    "virtual_minimum_uid=1",
];

fn progress(number: u32, round: &Round) -> String {
    let name = if number == 0 { "warm-up".to_owned() } else { format!("run {number}") };
    format!(
        "{name}: {} accepted/s, {} delivered/s, {} us/msg, clock factor {}",
        figure(Some(round.accepted_per_s), 0),
        figure(round.delivered_per_s, 0),
        figure(Some(round.cpu_us), 1),
        figure(Some(round.clock), 2)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Latency;

    #[test]
    fn what_is_thrown_away_is_counted_at_both_ends() {
        let row = |counts: &[(f64, Option<f64>)]| {
            let round = |(acknowledged, received): &(f64, Option<f64>)| Round {
                acknowledged: *acknowledged,
                received: *received,
                ..Round::default()
            };
            Row { name: "row".into(), rounds: counts.iter().map(round).collect(), peak_rss_mib: None, verdict: None }
        };
        for (counts, ledger, fault) in [
            (&[(10.0, Some(10.0)), (20.0, Some(20.0))][..], "0/0/-", None),
            (
                &[(10.0, Some(9.0)), (20.0, Some(22.0))],
                "1/2/-",
                Some("row is void: 1 acknowledged and not taken, 2 taken and not acknowledged"),
            ),
            (&[(10.0, None)], "-", None),
        ] {
            let row = row(counts);
            assert_eq!((row.ledger().as_str(), row.fault().as_deref()), (ledger, fault));
        }
    }

    #[test]
    fn a_run_that_nothing_limits_waits() {
        let latency = Latency { p50_ms: 2.0, ..Latency::default() };
        let load = Load { seconds: 1.0, ..Load::default() };
        let round = Round { accepted_per_s: 1000.0, latency, load, ..Round::default() };
        let row = Row { name: "n".to_owned(), rounds: vec![round], peak_rss_mib: None, verdict: None };
        assert!(row.limit().ends_with("; about 2 messages at a time, 2.0 ms each for its 250"), "{}", row.limit());
    }
}
