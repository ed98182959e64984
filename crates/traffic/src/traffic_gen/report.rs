//! What a run tells its user: a line each second while it goes, totals at its end, and JSON for programs.
//!
//! In: counters. Out: text. On a terminal the progress line is a bar that stays in place, elsewhere a line a second.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::histogram::Latency;
use super::tally::Counts;
use super::work::Extent;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// The first part of every id of the run.
    pub run: String,
    /// What became of the messages.
    pub counts: Counts,
    /// When it began.
    pub started: SystemTime,
    /// From the start to the last answer.
    pub elapsed: Duration,
    /// From the final dot to its 250.
    pub latency: Latency,
    /// Text of the last refusal or connection failure.
    pub last_failure: Option<String>,
    /// Whether any connection was opened.
    pub ever_connected: bool,
    /// User and system time this process has used.
    pub cpu: Duration,
}

impl Report {
    /// Messages accepted in a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.counts.sent as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let Counts { sent, failed, unknown, connections } = self.counts;
        let mut text = String::new();
        let seconds = self.elapsed.as_secs_f64();
        let mut line = |line: String| {
            text += &line;
            text.push('\n');
        };
        line(format!(
            "sent {sent} messages, failed {failed}, unknown {unknown}, in {seconds:.3} s over {connections} connections"
        ));
        let latency = self.latency;
        line(format!(
            "latency: avg={} min={} max={}",
            milliseconds(latency.avg_us),
            milliseconds(latency.min_us),
            milliseconds(latency.max_us)
        ));
        line(format!(
            "latency: p50={} p90={} p95={} p99={} p99.9={}",
            milliseconds(latency.p50_us),
            milliseconds(latency.p90_us),
            milliseconds(latency.p95_us),
            milliseconds(latency.p99_us),
            milliseconds(latency.p999_us)
        ));
        let rate = self.rate();
        line(format!("rate: {rate:.0} msgs/s, {:.0} msgs/minute, {:.0} msgs/hour", rate * 60.0, rate * 3600.0));
        if let Some(failure) = &self.last_failure {
            line(format!("last failure: {failure}"));
        }
        text
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let latency = self.latency;
        serde_json::json!({
            "run": self.run,
            "sent": self.counts.sent,
            "failed": self.counts.failed,
            "unknown": self.counts.unknown,
            "connections": self.counts.connections,
            "started_us": self.started.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64,
            "seconds": self.elapsed.as_secs_f64(),
            "rate": self.rate(),
            "cpu_us": self.cpu.as_micros() as u64,
            "latency_us": {
                "avg": latency.avg_us,
                "min": latency.min_us,
                "p50": latency.p50_us,
                "p90": latency.p90_us,
                "p95": latency.p95_us,
                "p99": latency.p99_us,
                "p99.9": latency.p999_us,
                "max": latency.max_us,
            },
            "last_failure": self.last_failure,
        })
    }
}

/// Writes the progress line.
pub(super) struct Progress {
    extent: Extent,
    is_terminal: bool,
    last_sent: u64,
    last_at: Duration,
}

impl Progress {
    /// Progress of a run of this extent.
    pub(super) fn new(extent: Extent) -> Self {
        Self { extent, is_terminal: std::io::stderr().is_terminal(), last_sent: 0, last_at: Duration::ZERO }
    }

    /// Shows where the run stands.
    pub(super) fn show(&mut self, counts: Counts, elapsed: Duration) {
        let line = self.line(counts, elapsed);
        let line = if self.is_terminal { format!("\r{line}\x1b[K") } else { format!("{line}\n") };
        // Progress that cannot be shown is no reason to stop the run.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    /// Leaves the bar's line.
    pub(super) fn finish(&self) {
        if self.is_terminal {
            eprintln!();
        }
    }

    fn line(&mut self, counts: Counts, elapsed: Duration) -> String {
        let seconds = elapsed.saturating_sub(self.last_at).as_secs_f64().max(1e-9);
        let rate = (counts.sent - self.last_sent) as f64 / seconds;
        (self.last_sent, self.last_at) = (counts.sent, elapsed);
        let done = match self.extent {
            Extent::Messages(count) => (counts.sent + counts.failed) as f64 / count as f64,
            Extent::Time(time) => elapsed.as_secs_f64() / time.as_secs_f64(),
        };
        let done = done.clamp(0.0, 1.0);
        let mut line = String::new();
        if self.is_terminal {
            let filled = (done * BAR_CHARACTERS as f64) as usize;
            line = format!("[{:<BAR_CHARACTERS$}] ", "#".repeat(filled));
        }
        // Writing to a String cannot fail.
        let _ = write!(line, "{:>3.0}%  sent {}  failed {}", done * 100.0, counts.sent, counts.failed);
        if counts.unknown > 0 {
            let _ = write!(line, "  unknown {}", counts.unknown);
        }
        let _ = write!(line, "  {rate:.0} msgs/s");
        line
    }
}

fn milliseconds(microseconds: u64) -> String {
    format!("{}.{:03}ms", microseconds / 1000, microseconds % 1000)
}

const BAR_CHARACTERS: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            run: "r".to_owned(),
            counts: Counts { sent: 300, failed: 2, unknown: 1, connections: 4 },
            started: UNIX_EPOCH + Duration::from_micros(99),
            elapsed: Duration::from_millis(1_500),
            latency: Latency { avg_us: 1_234, p999_us: 9_876, ..Latency::default() },
            last_failure: Some("550 no".to_owned()),
            ever_connected: true,
            cpu: Duration::from_micros(77),
        }
    }

    #[test]
    fn totals_for_people_and_programs() {
        let text = report().text();
        for want in [
            "sent 300 messages, failed 2, unknown 1",
            "avg=1.234ms",
            "p99.9=9.876ms",
            "200 msgs/s, 12000 msgs/minute, 720000 msgs/hour",
            "550 no",
        ] {
            assert!(text.contains(want), "{want} in {text}");
        }
        let json = report().json();
        assert_eq!(json["rate"], 200.0);
        assert_eq!((&json["cpu_us"], &json["started_us"]), (&77.into(), &99.into()));
        assert_eq!(json["latency_us"]["p99.9"], 9_876);
    }

    #[test]
    fn progress_shows_the_rate_of_the_last_second() {
        let mut progress = Progress::new(Extent::Messages(1_000));
        progress.is_terminal = false;
        let counts = |sent| Counts { sent, ..Counts::default() };
        progress.line(counts(100), Duration::from_secs(1));
        assert_eq!(progress.line(counts(500), Duration::from_secs(2)), " 50%  sent 500  failed 0  400 msgs/s");
    }
}
