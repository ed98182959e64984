//! What the operator reads.

use super::check::{Failure, Verdict};
use super::load::Recording;
use super::{Options, mount};
use anyhow::Result;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Where the test runs.
pub(super) fn place(dir: &Path, seed: u64, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "directory     {}", dir.display())?;
    match mount::of(dir) {
        Some(mount) => {
            let cache = mount.cache.as_deref().unwrap_or("not told");
            writeln!(out, "file system   {} on {} ({})", mount.kind, mount.source, mount.options)?;
            writeln!(out, "device cache  {cache}")?;
            if IN_MEMORY.contains(&&*mount.kind) {
                writeln!(out, "remark        {} lives in memory: a power cut leaves nothing of it", mount.kind)?;
            }
        }
        None => writeln!(out, "file system   not told by the system")?,
    }
    writeln!(out, "seed          {seed}")?;
    Ok(())
}

/// What the load did.
pub(super) fn load(recording: &Recording, out: &mut dyn Write) -> Result<()> {
    let Recording { stats, took, calls, octets, messages, .. } = recording;
    let how = if recording.is_direct { "past the page cache (O_DIRECT)" } else { "through the page cache" };
    writeln!(out, "writes        {how}")?;
    writeln!(
        out,
        "load          {messages} messages in {:.1} s; {} commits, {} segments released, {} octets compacted",
        took.as_secs_f64(),
        stats.commits,
        stats.released,
        stats.octets_compacted
    )?;
    writeln!(out, "recorded      {} calls, {} octets", calls.len(), octets)?;
    let at = |percent: usize| percentile(&recording.syncs, percent).as_micros();
    writeln!(out, "sync          p50 {} us, p90 {} us, p99 {} us, max {} us", at(50), at(90), at(99), at(100))?;
    if percentile(&recording.syncs, 50) < SYNC_SUSPICIOUS {
        writeln!(
            out,
            "remark        a sync is answered in under {} us: right for a device whose cache survives a power cut; \
             any other does not write before it answers, and no program can mend that",
            SYNC_SUSPICIOUS.as_micros()
        )?;
    }
    if let Some(refused) = &recording.refused {
        writeln!(out, "REFUSED       the disk refused a call: {refused}")?;
    }
    Ok(())
}

/// What the control found.
pub(super) fn control(verdict: &Verdict, lies: usize, out: &mut dyn Write) -> Result<()> {
    let Verdict { cuts, states, .. } = verdict;
    let lost = verdict.lost();
    writeln!(
        out,
        "control       the last {lies} syncs turned into lies: {cuts} cuts, {states} states, {lost} messages lost"
    )?;
    Ok(())
}

/// What was looked at.
pub(super) fn cuts(verdict: &Verdict, out: &mut dyn Write) -> Result<()> {
    let Verdict { cuts, states, torn_states, messages, must, .. } = verdict;
    writeln!(out, "power cuts    {cuts}; {states} states rebuilt, {torn_states} with a commit torn")?;
    writeln!(out, "recovered     {messages} messages, each compared; {must} were promised")?;
    Ok(())
}

/// How to see the first failure again.
pub(super) fn reproduce(
    failure: &Failure,
    options: &Options,
    dir: &Path,
    seed: u64,
    kept: &Path,
    out: &mut dyn Write,
) -> Result<()> {
    writeln!(out, "first failure cut {} state {}", failure.cut, failure.state)?;
    for wrong in failure.wrong.iter().take(WRONG_SHOWN_MAX) {
        writeln!(out, "              {}", wrong.told())?;
    }
    writeln!(out, "again         postrider selftest --power-cut --replay {}", kept.display())?;
    writeln!(
        out,
        "the whole run postrider selftest --power-cut --dir {} --messages {} --cuts {} --seed {seed}",
        dir.display(),
        options.messages,
        options.cuts
    )?;
    Ok(())
}

/// The last lines.
pub(super) fn verdict(verdict: &Verdict, out: &mut dyn Write) -> Result<()> {
    let [lost, damaged, phantom, half, recovery] =
        ["lost", "damaged", "phantom", "half", "recovery"].map(|kind| verdict.count(kind));
    writeln!(
        out,
        "result        lost {lost}, damaged {damaged}, phantom {phantom}, transactions in part {half}, failed recoveries {recovery}"
    )?;
    let words = match () {
        () if verdict.states == 0 => "NOT TESTED: no state was rebuilt",
        () if verdict.is_good() => "PASSED",
        () if verdict.wrong.is_empty() => "NOT TESTED: nothing was promised before the cuts",
        () => "FAILED",
    };
    writeln!(out, "{words}")?;
    Ok(())
}

/// The value below which `percent` of the sorted values lie.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// Faster than any flash memory takes a page.
const SYNC_SUSPICIOUS: Duration = Duration::from_micros(20);
/// File systems without a device.
const IN_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];
/// Lines of the first failure that are printed.
const WRONG_SHOWN_MAX: usize = 10;
