//! The command line of `kcli`: every verb, and who carries it out.
//!
//! In: words. Out: the verb's own words, and an exit code. The server is `--endpoint`, else `KUMO_KCLI_ENDPOINT`, else the
//! listener that a server on this machine has by default. One thread does everything: a verb is a question or two.

use crate::orders::{self, Kind};
use crate::output::Out;
use crate::server::Server;
use crate::{inspect, moving, pages, provider_summary, queue_summary, search, top, trace, upkeep, why};
use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Asks a running server what it does, and tells it what to do.
///
/// Each verb has --help.
#[derive(Debug, Parser)]
#[command(name = "kcli", bin_name = "kcli", version, subcommand_required = true, arg_required_else_help = true)]
pub struct Kcli {
    /// The server's HTTP listener: http://[USER:PASSWORD@]HOST[:PORT]. Else KUMO_KCLI_ENDPOINT, else http://127.0.0.1:8000.
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,
    /// For machines: what the server answered, as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// End queued mail, with a record each.
    Bounce(orders::Bounce),
    /// The bounces in force, and how far they are.
    BounceList,
    /// Take a bounce back.
    BounceCancel(orders::Cancel),
    /// Let mail of scheduled queues wait.
    Suspend(orders::Suspend),
    /// The suspensions of scheduled queues in force.
    SuspendList,
    /// Take a suspension back.
    SuspendCancel(orders::Cancel),
    /// Let a ready queue send nothing.
    SuspendReadyQ(orders::SuspendReady),
    /// The suspensions of ready queues in force.
    SuspendReadyQList,
    /// Take the suspension of a ready queue back.
    SuspendReadyQCancel(orders::Cancel),
    /// Take mail out of its queues until it is released.
    Hold(orders::Hold),
    /// The holds in force.
    HoldList,
    /// Release what is held.
    HoldCancel(orders::Cancel),
    /// Try mail that waits for a retry now.
    Flush(orders::Flush),
    /// The flushes that are not done yet.
    FlushList,
    /// Stop a flush.
    FlushCancel(orders::Cancel),
    /// Change queued mail, and with that move it to another queue.
    Rebind(moving::Rebind),
    /// The rebindings that are not done yet.
    RebindList,
    /// Stop a rebinding; what has moved stays where it is.
    RebindCancel(orders::Cancel),
    /// Move queued mail to another node.
    Xfer(moving::Xfer),
    /// The transfers that are not done yet.
    XferList,
    /// Bring back what is on its way to another node.
    XferCancel(moving::XferCancel),
    /// Change what the diagnostic log tells.
    SetLogFilter(upkeep::LogFilter),
    /// A message: where it is, what is in it.
    InspectMessage(inspect::Message),
    /// A scheduled queue and some of its messages.
    InspectSchedQ(inspect::Scheduled),
    /// A ready queue: its hosts, limits and connections.
    InspectReadyQ(inspect::Ready),
    /// The way mail to a domain would take.
    ResolveEgressPath(inspect::Resolve),
    /// End one connection of a ready queue.
    AbortReadyQConn(inspect::Abort),
    /// What a message, a queue or a domain's mail waits for, and what would change it.
    Why(why::Options),
    /// Messages by recipient, sender, queue or state, also those that have ended.
    Search(search::Search),
    /// All that happened to a message.
    Timeline(search::Timeline),
    /// All queues, a line each.
    QueueSummary(queue_summary::Options),
    /// All providers, a line each.
    ProviderSummary(provider_summary::Options),
    /// The queues on a whole screen, again and again. Keys: q or Esc quit, f filter, Tab next view, arrows, + and - interval.
    Top(top::Options),
    /// Show SMTP sessions as they happen: of clients (`trace server`), or to other servers (`trace client`).
    #[command(subcommand)]
    Trace(trace::Of),
    /// Show SMTP sessions of clients as they happen.
    TraceSmtpServer(trace::OfServer),
    /// Show SMTP sessions to other servers as they happen.
    TraceSmtpClient(trace::OfClient),
    /// Whether new mail is taken at once; else fails, with all reasons why not.
    CheckReadiness,
    /// What is in the server's memory.
    MemoryStats,
    /// What the server's threads and tasks do.
    TaskDump(upkeep::TaskDump),
    /// Have a spool give unused space back.
    SpoolCompact(upkeep::Compact),
    /// Write what a shell needs to complete this command line.
    Completions(pages::Completions),
    /// Write the manual page.
    Man(pages::Man),
}

/// `kcli` on this process's stdout and stderr.
///
/// # Errors
/// What kept a verb from being done; the caller prints it.
pub fn run(arguments: Vec<OsString>) -> Result<ExitCode> {
    let endpoint = std::env::var(ENDPOINT_VARIABLE).ok();
    let mut out = BufWriter::new(io::stdout().lock());
    let done = run_to(arguments, endpoint, &mut out, &mut io::stderr());
    match done.and_then(|code| Ok(out.flush().map(|()| code)?)) {
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        done => done.map(ExitCode::from),
    }
}

/// `kcli` with other streams; `endpoint` is what the environment says. Returns the exit code.
///
/// # Errors
/// As [`run`].
pub fn run_to(
    arguments: Vec<OsString>,
    endpoint: Option<String>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<u8> {
    let kcli: Kcli = match parsed(arguments, out, notes)? {
        Ok(kcli) => kcli,
        Err(code) => return Ok(code),
    };
    let mut out = Out { out, notes, json: kcli.json };
    match &kcli.verb {
        Verb::Completions(given) => pages::completions(Kcli::command(), given, out.out)?,
        Verb::Man(given) => pages::man(Kcli::command(), given, out.out)?,
        verb => {
            let given = kcli.endpoint.or(endpoint.filter(|text| !text.is_empty()));
            let server = Server::new(given.as_deref().unwrap_or(ENDPOINT))?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(carry_out(verb, &server, &mut out))?;
        }
    }
    Ok(0)
}

async fn carry_out(verb: &Verb, server: &Server, out: &mut Out<'_>) -> Result<()> {
    match verb {
        Verb::Bounce(given) => orders::bounce(server, out, given).await,
        Verb::BounceList => orders::list(server, out, Kind::Bounce).await,
        Verb::BounceCancel(given) => orders::cancel(server, out, Kind::Bounce, given).await,
        Verb::Suspend(given) => orders::suspend(server, out, given).await,
        Verb::SuspendList => orders::list(server, out, Kind::Suspend).await,
        Verb::SuspendCancel(given) => orders::cancel(server, out, Kind::Suspend, given).await,
        Verb::SuspendReadyQ(given) => orders::suspend_ready(server, out, given).await,
        Verb::SuspendReadyQList => orders::list(server, out, Kind::SuspendReady).await,
        Verb::SuspendReadyQCancel(given) => orders::cancel(server, out, Kind::SuspendReady, given).await,
        Verb::Hold(given) => orders::hold(server, out, given).await,
        Verb::HoldList => orders::list(server, out, Kind::Hold).await,
        Verb::HoldCancel(given) => orders::cancel(server, out, Kind::Hold, given).await,
        Verb::Flush(given) => orders::flush(server, out, given).await,
        Verb::FlushList => orders::list(server, out, Kind::Flush).await,
        Verb::FlushCancel(given) => orders::cancel(server, out, Kind::Flush, given).await,
        Verb::Rebind(given) => moving::rebind(server, out, given).await,
        Verb::RebindList => orders::list(server, out, Kind::Rebind).await,
        Verb::RebindCancel(given) => orders::cancel(server, out, Kind::Rebind, given).await,
        Verb::Xfer(given) => moving::xfer(server, out, given).await,
        Verb::XferList => orders::list(server, out, Kind::Xfer).await,
        Verb::XferCancel(given) => moving::xfer_cancel(server, out, given).await,
        Verb::SetLogFilter(given) => upkeep::set_log_filter(server, out, given).await,
        Verb::InspectMessage(given) => inspect::message(server, out, given).await,
        Verb::InspectSchedQ(given) => inspect::scheduled(server, out, given).await,
        Verb::InspectReadyQ(given) => inspect::ready(server, out, given).await,
        Verb::ResolveEgressPath(given) => inspect::resolve(server, out, given).await,
        Verb::AbortReadyQConn(given) => inspect::abort(server, out, given).await,
        Verb::QueueSummary(given) => queue_summary::run(server, out, given).await,
        Verb::ProviderSummary(given) => provider_summary::run(server, out, given).await,
        Verb::Search(given) => search::search(server, out, given).await,
        Verb::Timeline(given) => search::timeline(server, out, given).await,
        Verb::Why(given) => why::run(server, out, given).await,
        Verb::Top(given) => top::run(server, out, given).await,
        Verb::Trace(trace::Of::Server(given)) | Verb::TraceSmtpServer(given) => trace::server(server, out, given).await,
        Verb::Trace(trace::Of::Client(given)) => trace::client(server, out, given).await,
        Verb::TraceSmtpClient(given) => trace::client(server, out, given).await,
        Verb::CheckReadiness => upkeep::check_readiness(server, out).await,
        Verb::MemoryStats => upkeep::memory_stats(server, out).await,
        Verb::TaskDump(given) => upkeep::task_dump(server, out, given).await,
        Verb::SpoolCompact(given) => upkeep::compact(server, out, given).await,
        // Done without a server.
        Verb::Completions(_) | Verb::Man(_) => Ok(()),
    }
}

/// Reads a command line; `Err` is the exit code after help or what is wrong was written.
pub(crate) fn parsed<O: Parser>(
    arguments: Vec<OsString>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> Result<Result<O, u8>> {
    let error = match O::try_parse_from(arguments) {
        Ok(options) => return Ok(Ok(options)),
        Err(error) => error,
    };
    match error.use_stderr() {
        true => write!(notes, "{}", error.render())?,
        false => write!(out, "{}", error.render())?,
    }
    Ok(Err(u8::try_from(error.exit_code()).unwrap_or(2)))
}

/// Whether nobody reads what is written any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.root_cause().downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

const ENDPOINT_VARIABLE: &str = "KUMO_KCLI_ENDPOINT";
const ENDPOINT: &str = "http://127.0.0.1:8000";
