//! Which moments are cut, and the walk through all of them, on every core.

use super::check::{Failure, Verdict, check};
use super::load::Recording;
use super::recorder::Call;
use super::states::Walker;
use fastrand::Rng;
use std::collections::BTreeSet;
use std::time::Instant;

/// What to cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// How many moments.
    pub cuts: u32,
    /// How many syncs before each were lies.
    pub lies: usize,
    pub seed: u64,
    /// This moment only.
    pub only: Option<usize>,
    /// No more after this.
    pub until: Option<Instant>,
}

/// The cuts through one recording.
pub(super) struct Cuts<'a> {
    recording: &'a Recording,
    /// Positions behind each sync.
    syncs: Vec<usize>,
}

impl<'a> Cuts<'a> {
    pub fn new(recording: &'a Recording) -> Cuts<'a> {
        let calls = recording.calls.iter().enumerate();
        let syncs = calls.filter(|(_, call)| matches!(call, Call::Sync(_))).map(|(at, _)| at + 1).collect();
        Cuts { recording, syncs }
    }

    /// Cuts, recovers, compares.
    pub fn run(&self, plan: &Plan) -> Verdict {
        let moments = self.moments(plan);
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
        let share = moments.len().div_ceil(workers).max(1);
        let mut verdict = Verdict::default();
        std::thread::scope(|scope| {
            let parts: Vec<_> = moments.chunks(share).map(|part| scope.spawn(|| self.part(plan, part))).collect();
            for part in parts {
                match part.join() {
                    Ok(part) => verdict.join(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        verdict
    }

    /// Moments in ascending order, each once.
    fn moments(&self, plan: &Plan) -> Vec<usize> {
        let calls = self.recording.calls.len();
        if let Some(only) = plan.only {
            return vec![only];
        }
        if calls < plan.cuts as usize {
            return (0..=calls).collect();
        }
        let mut random = Rng::with_seed(plan.seed);
        let mut moments = BTreeSet::new();
        while moments.len() < plan.cuts as usize {
            moments.insert(random.usize(..=calls));
        }
        moments.into_iter().collect()
    }

    fn part(&self, plan: &Plan, moments: &[usize]) -> Verdict {
        let calls = &self.recording.calls;
        let mut verdict = Verdict::default();
        let mut honest = Walker::default();
        for cut in moments {
            if plan.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            honest.advance(calls, self.believed(*cut, plan.lies), false);
            let mut found = honest.clone();
            found.advance(calls, *cut, true);
            let expected = self.recording.ledger.expected(*cut);
            let must = expected.values().filter(|expected| expected.must).count() as u64;
            verdict.cuts += 1;
            for state in 0..STATES {
                let mut random = Rng::with_seed(plan.seed ^ (*cut as u64) << 8 ^ state);
                let Ok(disk) = found.clone().cut(calls, &mut random) else { continue };
                // Recovery may write: the state is kept as it was found.
                let kept = disk.contents();
                let recovered = check(&disk, &expected);
                verdict.add(&recovered, must);
                if !recovered.wrong.is_empty() && verdict.failures.len() < FAILURES_KEPT_MAX {
                    let disk =
                        super::states::CutDisk::of(kept.into_iter().map(|(name, octets)| (name, octets.to_vec())));
                    verdict.failures.push(Failure { cut: *cut, state, wrong: recovered.wrong, disk });
                }
            }
        }
        verdict
    }

    /// Up to which call syncs did what they said.
    fn believed(&self, cut: usize, lies: usize) -> usize {
        if lies == 0 {
            return cut;
        }
        let before = self.syncs.partition_point(|at| *at <= cut);
        before.checked_sub(lies + 1).map_or(0, |at| self.syncs[at])
    }
}

/// States rebuilt for each cut.
const STATES: u64 = 2;
/// Failures of which the state is kept, for each worker.
const FAILURES_KEPT_MAX: usize = 2;
/// Threads, at most.
const WORKERS_MAX: usize = 8;
