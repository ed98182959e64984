//! The command line of `smtp-sink`. In: arguments. Out: [`Options`], checked. Every default stands here once.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Accept mail, count it, and throw it away.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "smtp-sink", version, about, long_about = None)]
pub struct Options {
    /// Address to listen on; port 0 takes a free port, which is then printed
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:2026")]
    pub listen: SocketAddr,

    /// Write one line for each message accepted: its X-Postrider-Id, a tab, `ok` or `damaged` (`unmarked` for mail
    /// that traffic-gen did not make), a tab, its recipients with commas between, a tab, when it was complete in
    /// microseconds since 1970
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,

    /// Only count messages and look at no content; this is also what happens without --ledger
    #[arg(long, conflicts_with = "ledger")]
    pub count_only: bool,

    /// Share of the messages to refuse after their final dot, evenly spread
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub fail_rate: f64,

    /// The code refused messages get; 421 also closes the connection
    #[arg(long, value_name = "CODE", default_value_t = 451, value_parser = clap::value_parser!(u16).range(400..=599))]
    pub fail_code: u16,

    /// Share of the messages to answer by closing the connection instead of replying to their final dot
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub drop_after_dot: f64,

    /// The name in greeting and EHLO reply
    #[arg(long, value_name = "NAME", default_value = "smtp-sink.test", value_parser = hostname)]
    pub hostname: String,

    /// Answer 421 and close when a connection begins a message after this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_messages_per_connection: Option<u64>,

    /// Wait this long before replying to a final dot
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub delay_ms: u64,

    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<usize>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        _ => Err("expected a number from 0 to 100".to_owned()),
    }
}

fn hostname(text: &str) -> Result<String, String> {
    let fine = !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte));
    if fine {
        Ok(text.to_owned())
    } else {
        Err("expected a host name of at most 255 letters, digits, dots and hyphens".to_owned())
    }
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(count) if (1..=1024).contains(&count) => Ok(count),
        _ => Err("expected a number from 1 to 1024".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        Options::try_parse_from(std::iter::once(&"smtp-sink").chain(arguments))
    }

    #[test]
    fn defaults() {
        let options = parse(&[]).expect("no arguments");
        assert_eq!(options.listen.to_string(), "127.0.0.1:2026");
        assert_eq!(options.fail_code, 451);
        assert_eq!(options.ledger, None);
    }

    #[test]
    fn wrong_values_are_refused() {
        for arguments in [
            &["--fail-rate", "101"][..],
            &["--fail-rate", "NaN"],
            &["--drop-after-dot", "-1"],
            &["--fail-code", "250"],
            &["--listen", "localhost"],
            &["--hostname", "two words"],
            &["--threads", "0"],
            &["--max-messages-per-connection", "0"],
            &["--ledger", "f", "--count-only"],
            &["--unknown"],
            &["stray"],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
