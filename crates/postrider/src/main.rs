//! Postrider: one program, known by the name it is started under.
//!
//! `kumod` is the mail server with KumoMTA's command line, `traffic-gen` and `smtp-sink` the
//! load tools; `postrider VERB` reaches each of them too, and `postrider serve` runs the server
//! on embedded defaults. This page is the map from names to what they start.

mod certificates;
mod choices;
mod daemon;
mod defaults;
mod diagnostics;
mod early_signals;
mod explain;
mod file_changes;
mod handover;
mod identity;
mod listeners;
mod memory;
mod privileges;
mod reload;
mod serve;
mod spools;
mod supervisor;
mod tasks;
mod tsa_daemon;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let started_as = arguments.first().map(|a| Path::new(a).file_name().unwrap_or(a).to_owned()).unwrap_or_default();
    if let Some(run) = tool(&started_as) {
        return finish(run(arguments));
    }
    if arguments.len() < 2 {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let verb = arguments.remove(1);
    match (tool(&verb), verb.to_str()) {
        (Some(run), _) => finish(run(arguments)),
        (None, Some("--version" | "-V")) => {
            println!("postrider {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        (None, Some("--help" | "-h" | "help")) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("postrider: unknown verb `{}`\n{USAGE}", verb.display());
            ExitCode::from(2)
        }
    }
}

type Tool = fn(Vec<OsString>) -> anyhow::Result<ExitCode>;

fn tool(name: &OsStr) -> Option<Tool> {
    match name.to_str()? {
        "kumod" => Some(daemon::run),
        "tsa-daemon" => Some(tsa_daemon::run),
        "serve" => Some(serve::run),
        "try" => Some(cli::try_out),
        "init" => Some(cli::init),
        "check" => Some(daemon::check),
        "doctor" => Some(|arguments| cli::doctor(arguments, daemon::configured)),
        "spool" => Some(|arguments| cli::spool(arguments, defaults::tools())),
        "selftest" => Some(|arguments| cli::selftest(arguments, defaults::tools())),
        "kcli" => Some(kcli::run),
        "tailer" => Some(kcli::tailer),
        "classify" => Some(cli::classify),
        "validate-bounces" => Some(cli::validate_bounces),
        "traffic-gen" => Some(traffic::traffic_gen::run),
        "smtp-sink" => Some(traffic::smtp_sink::run),
        _ => None,
    }
}

/// One clear line for whatever kept the program from its work, and exit 1.
fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

const USAGE: &str = "usage: postrider VERB [OPTIONS]

  serve        run the mail server on safe embedded defaults
  try          show within a minute what becomes of mail, on loopback alone
  init         write a policy for this server: four questions
  doctor       tell what keeps mail from moving, and what helps
  check        tell what a policy sets, and what of it is doubtful
  kumod        run the mail server with a KumoMTA policy script
  tsa-daemon   run the traffic shaping daemon: rules for what servers answer
  kcli         ask a running server, and give it orders
  tailer       print log records, and those that come
  spool        look at a spool, running or not, or save mail from it
  selftest     prove on this disk that a power cut loses no mail
  classify     tell the bounce class of a reply, and the rule that says so
  traffic-gen  send test mail to a server
  smtp-sink    take mail and throw it away

Each verb has --help. Installed under a verb's name, the program is that verb.";
