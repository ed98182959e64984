//! The command line of `traffic-gen`: KumoMTA's options with its names and defaults, and some of our own.
//!
//! In: arguments. Out: a [`Plan`] in which everything is decided. Every default stands here once. The one default that
//! differs is the domain suffix: ours is under `.test`, which no name server can ever resolve (RFC 6761 6.2), so that
//! a generator pointed at a real relay by mistake sends nothing to anybody.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use super::parse::{self, HeaderField, Rate, WeightedDomain};
use super::work::Extent;
use crate::process;

/// Put test mail into a server and measure how fast it is accepted.
///
/// Recipients are user-<random>@<domain>.<suffix>, senders noreply@<domain>.<suffix>; the suffix makes sure that
/// nothing can leave. Every message carries an id and a checksum that smtp-sink verifies.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "traffic-gen", version, about, long_about)]
pub struct Options {
    /// Appended to every domain. The default can never resolve. An empty suffix is only accepted with --domain and a
    /// target on a loopback address
    #[arg(long, value_name = "DOMAIN", default_value = "mx-sink.test", value_parser = parse::suffix)]
    domain_suffix: String,

    /// The server to send to [with --http: http://127.0.0.1:8000]
    #[arg(long, value_name = "HOST:PORT", default_value = DEFAULT_TARGET)]
    target: String,

    /// Connections open at once [default: ten for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX))]
    concurrency: Option<u32>,

    /// How long to send: seconds, or a number with s, m or h
    #[arg(long, value_name = "TIME", default_value = "60", value_parser = parse::duration)]
    duration: Duration,

    /// Send this many messages instead of sending for a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    message_count: Option<u64>,

    /// Use STARTTLS; the server's certificate is not verified
    #[arg(long, conflicts_with = "http")]
    starttls: bool,

    /// Send the content of this file. When it begins with a header field it is a whole message and used as it is,
    /// with two X-Postrider fields above it; line ends become CRLF
    #[arg(long, value_name = "FILE", conflicts_with_all = ["body_size", "header"])]
    body_file: Option<PathBuf>,

    /// Recipient domain and its weight among the others (repeatable)
    #[arg(long, value_name = "NAME[:WEIGHT]", value_parser = parse::domain)]
    domain: Vec<WeightedDomain>,

    /// Send at most so many messages: N/s, N/min, N/30min, N/h, with ,max_burst=N if wanted
    #[arg(long, value_name = "SPEC", value_parser = parse::rate)]
    throttle: Option<Rate>,

    /// Keep --throttle as a timetable: a message counts its latency from when it was due, so that a server that stalls is
    /// charged for all that had to wait (without this, a client that waits for an answer sends later and tells nobody)
    #[arg(long, requires_all = ["throttle", "message_count"], conflicts_with = "http")]
    open_loop: bool,

    /// Add a header field, or replace one of ours (repeatable)
    #[arg(long, value_name = "NAME: VALUE", value_parser = parse::header)]
    header: Vec<HeaderField>,

    /// Size of a message, header and body: bytes, or a number with k, kb, m or mb (of 1024)
    #[arg(long, value_name = "SIZE", default_value = "1024", value_parser = parse::size)]
    body_size: u64,

    /// Inject over HTTP (POST /api/inject/v1) instead of SMTP
    #[arg(long)]
    http: bool,

    /// Ask for deferred_spool: the server may answer before the message is on disk
    #[arg(long, requires = "http")]
    http_defer_spool: bool,

    /// Ask for deferred_generation: the server queues the request itself
    #[arg(long, requires = "http")]
    http_defer_generation: bool,

    /// Inject in streams (POST /api/inject/bulk/v1), a line for each message
    #[arg(long, requires = "http", conflicts_with = "http_batch_size")]
    http_bulk: bool,

    /// Recipients of a request, each with an address of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http", value_parser = clap::value_parser!(u32).range(1..=BATCH_MAX))]
    http_batch_size: u32,

    /// Go on after a failed connection; each one counts as a failed message
    #[arg(long)]
    keep_going: bool,

    /// Go on after a failed connection for ever, and send what was not acknowledged again under a new id: for tests
    /// that kill the server
    #[arg(long)]
    reconnect_forever: bool,

    /// Write the id of each message answered 250 to FILE, a line each; ids of messages whose answer was lost go to
    /// FILE.unknown
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,

    /// Write the result as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Close a connection after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages_per_connection: Option<u64>,

    /// Send commands one at a time even when the server offers PIPELINING
    #[arg(long)]
    no_pipeline: bool,

    /// Send commands in groups when the server offers PIPELINING; this is the default
    #[arg(long, conflicts_with = "no_pipeline")]
    pipeline: bool,

    /// No progress on stderr
    #[arg(long)]
    quiet: bool,

    /// Envelope sender and From [default: noreply@ the recipient's domain]
    #[arg(long, value_name = "ADDRESS", value_parser = parse::address)]
    sender: Option<String>,

    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// A run in which everything is decided.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Appended to every domain; empty for none.
    pub domain_suffix: String,
    /// Addresses of the server, tried in order.
    pub addresses: Vec<SocketAddr>,
    /// The target as it was given, without a scheme: the Host field and the TLS name.
    pub authority: String,
    /// Connections open at once.
    pub concurrency: u32,
    /// When to end.
    pub extent: Extent,
    /// Upgrade every connection to TLS.
    pub starttls: bool,
    /// A file to send instead of a made body.
    pub body_file: Option<PathBuf>,
    /// Recipient domains, at least one.
    pub domains: Vec<WeightedDomain>,
    /// The rate not to exceed.
    pub throttle: Option<Rate>,
    /// The rate is a timetable, and latencies count from it.
    pub open_loop: bool,
    /// Fields the user wants.
    pub headers: Vec<HeaderField>,
    /// Size of a message.
    pub body_bytes: usize,
    /// Inject over HTTP.
    pub http: Option<HttpPlan>,
    /// Go on after failed connections.
    pub keep_going: bool,
    /// Go on for ever and send again what was not acknowledged.
    pub reconnect_forever: bool,
    /// Where acknowledged ids go.
    pub ledger: Option<PathBuf>,
    /// Where the result goes.
    pub json: Option<PathBuf>,
    /// Messages before a connection is renewed.
    pub messages_per_connection: u64,
    /// Pipeline when the server offers it.
    pub pipeline: bool,
    /// No progress.
    pub quiet: bool,
    /// Envelope sender and From.
    pub sender: Option<String>,
    /// Worker threads.
    pub threads: usize,
}

/// What is special about injection over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpPlan {
    /// `deferred_spool` of the request.
    pub defer_spool: bool,
    /// `deferred_generation` of the request.
    pub defer_generation: bool,
    /// Recipients of a request.
    pub batch: u64,
    /// A stream of requests over each connection.
    pub bulk: bool,
}

/// Why no plan can be made of the options.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The name does not resolve, or there is no port.
    #[error("--target {target}: {source}; expected HOST:PORT, or http://HOST:PORT with --http")]
    Target {
        /// As given.
        target: String,
        /// Why.
        source: io::Error,
    },
    /// We speak no TLS to an HTTP server.
    #[error("--target {target}: only http:// is supported, without a path")]
    Scheme {
        /// As given.
        target: String,
    },
    /// Mail could leave.
    #[error(
        "--domain-suffix must not be empty: recipients at real domains could get this mail; it is only accepted with \
         at least one --domain and a --target on a loopback address, and {target} is {what}"
    )]
    Unsafe {
        /// As given.
        target: String,
        /// What is amiss.
        what: &'static str,
    },
    /// The sink would take the wrong one for ours.
    #[error("--header {name}: fields that begin with X-Postrider- are written by traffic-gen itself")]
    ReservedHeader {
        /// As given.
        name: String,
    },
}

impl Options {
    /// Decides what the options leave open. Resolves the target, which may block.
    ///
    /// # Errors
    /// The target cannot be used, or mail could leave.
    pub fn into_plan(self) -> Result<Plan, PlanError> {
        let (authority, addresses) = resolve(&self.target, self.http)?;
        self.check_safety(&addresses)?;
        if let Some(field) = self.headers_reserved() {
            return Err(PlanError::ReservedHeader { name: field });
        }
        let cores = process::cores();
        let default_concurrency = u32::try_from(10 * cores).unwrap_or(10);
        let domains = if self.domain.is_empty() { default_domains() } else { self.domain };
        Ok(Plan {
            domain_suffix: self.domain_suffix,
            addresses,
            authority,
            concurrency: self.concurrency.unwrap_or(default_concurrency),
            extent: self.message_count.map_or(Extent::Time(self.duration), Extent::Messages),
            starttls: self.starttls,
            body_file: self.body_file,
            domains,
            throttle: self.throttle,
            open_loop: self.open_loop,
            headers: self.header,
            body_bytes: usize::try_from(self.body_size).unwrap_or(usize::MAX),
            http: self.http.then_some(HttpPlan {
                defer_spool: self.http_defer_spool,
                defer_generation: self.http_defer_generation,
                batch: u64::from(self.http_batch_size),
                bulk: self.http_bulk,
            }),
            keep_going: self.keep_going,
            reconnect_forever: self.reconnect_forever,
            ledger: self.ledger,
            json: self.json,
            messages_per_connection: self.messages_per_connection.unwrap_or(u64::MAX),
            pipeline: !self.no_pipeline,
            quiet: self.quiet,
            sender: self.sender,
            threads: self.threads.map_or(cores, usize::from),
        })
    }

    fn check_safety(&self, addresses: &[SocketAddr]) -> Result<(), PlanError> {
        let unsafe_because = |what| PlanError::Unsafe { target: self.target.clone(), what };
        if !self.domain_suffix.is_empty() {
            return Ok(());
        }
        if !addresses.iter().all(|address| address.ip().to_canonical().is_loopback()) {
            return Err(unsafe_because("not on a loopback address"));
        }
        if self.domain.is_empty() {
            return Err(unsafe_because("given without --domain"));
        }
        Ok(())
    }

    fn headers_reserved(&self) -> Option<String> {
        let reserved = |field: &&HeaderField| field.name.to_ascii_lowercase().starts_with("x-postrider-");
        self.header.iter().find(reserved).map(|field| field.name.clone())
    }
}

fn resolve(target: &str, http: bool) -> Result<(String, Vec<SocketAddr>), PlanError> {
    let fail = |source| PlanError::Target { target: target.to_owned(), source };
    let authority = match target.split_once("://") {
        None if http && target == DEFAULT_TARGET => DEFAULT_HTTP_AUTHORITY.to_owned(),
        None => target.to_owned(),
        Some(("http", rest)) if http => {
            let authority = rest.strip_suffix('/').unwrap_or(rest);
            let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if has_port { authority.to_owned() } else { format!("{authority}:80") }
        }
        Some(_) if http => {
            return Err(PlanError::Scheme { target: target.to_owned() });
        }
        Some(_) => return Err(fail(io::Error::other("a URL needs --http"))),
    };
    if authority.contains('/') {
        return Err(PlanError::Scheme { target: target.to_owned() });
    }
    let addresses: Vec<SocketAddr> = authority.to_socket_addrs().map_err(fail)?.collect();
    if addresses.is_empty() {
        return Err(fail(io::ErrorKind::NotFound.into()));
    }
    Ok((authority, addresses))
}

fn default_domains() -> Vec<WeightedDomain> {
    ["aol.com", "gmail.com", "hotmail.com", "yahoo.com"]
        .map(|name| WeightedDomain { name: name.to_owned(), weight: 1 })
        .into()
}

const DEFAULT_TARGET: &str = "127.0.0.1:2025";
const DEFAULT_HTTP_AUTHORITY: &str = "127.0.0.1:8000";
const CONCURRENCY_MAX: i64 = 100_000;
const BATCH_MAX: i64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn plan(arguments: &[&str]) -> Result<Plan, String> {
        Options::try_parse_from(std::iter::once(&"traffic-gen").chain(arguments))
            .map_err(|error| error.to_string())?
            .into_plan()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn defaults() {
        let plan = plan(&[]).expect("no arguments");
        assert_eq!(plan.domain_suffix, "mx-sink.test");
        assert_eq!(plan.authority, "127.0.0.1:2025");
        assert_eq!(plan.extent, Extent::Time(Duration::from_secs(60)));
        assert_eq!(plan.body_bytes, 1_024);
        assert_eq!(plan.concurrency as usize, 10 * process::cores());
        assert!(plan.pipeline && plan.http.is_none());
        assert_eq!(plan.domains.len(), 4);
    }

    #[test]
    fn targets() {
        let of = |arguments: &[&str]| plan(arguments).map(|plan| plan.authority);
        assert_eq!(of(&["--http"]).as_deref(), Ok("127.0.0.1:8000"));
        assert_eq!(of(&["--http", "--target", "http://127.0.0.1/"]).as_deref(), Ok("127.0.0.1:80"));
        assert_eq!(of(&["--http", "--target", "http://[::1]:90"]).as_deref(), Ok("[::1]:90"));
        assert_eq!(of(&["--target", "[::1]:25"]).as_deref(), Ok("[::1]:25"));
        for arguments in [
            &["--target", "127.0.0.1"][..],
            &["--target", "http://127.0.0.1:25"],
            &["--http", "--target", "https://127.0.0.1:443"],
            &["--http", "--target", "http://127.0.0.1:80/api"],
            &["--target", "127.0.0.1:99999"],
        ] {
            assert!(of(arguments).is_err(), "{arguments:?}");
        }
    }

    #[test]
    fn nothing_can_leave() {
        let safe = ["--domain-suffix", "", "--domain", "example.test", "--target", "127.0.0.1:25"];
        assert_eq!(plan(&safe).expect("loopback").domain_suffix, "");
        let away = ["--domain-suffix", "", "--domain", "example.test", "--target", "192.0.2.1:25"];
        assert!(plan(&away).expect_err("not loopback").contains("not on a loopback address"));
        assert!(plan(&["--domain-suffix="]).expect_err("real domains").contains("without --domain"));
    }

    #[test]
    fn wrong_options_are_refused() {
        for arguments in [
            &["--rcpt", "a@b.test"][..],
            &["stray"],
            &["--concurrency", "0"],
            &["--message-count", "0"],
            &["--body-size", "big"],
            &["--throttle", "fast"],
            &["--open-loop"],
            &["--open-loop", "--throttle", "5/s"],
            &["--open-loop", "--throttle", "5/s", "--message-count", "5", "--http"],
            &["--http-batch-size", "5"],
            &["--http", "--starttls"],
            &["--body-file", "f", "--body-size", "1k"],
            &["--pipeline", "--no-pipeline"],
            &["--header", "X-Postrider-Id: mine"],
            &["--sender", "nobody"],
        ] {
            assert!(plan(arguments).is_err(), "{arguments:?}");
        }
    }
}
