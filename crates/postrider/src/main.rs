//! Postrider: one program, known by the name it is started under.
//!
//! `kumod` is the mail server with KumoMTA's command line, `traffic-gen` and `smtp-sink` the
//! load tools; `postrider VERB` reaches each of them too, and `postrider serve` runs the server
//! on embedded defaults. This page is the map from names to what they start.

mod allocator;
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
mod pages;
mod privileges;
mod reload;
mod serve;
mod spools;
mod stderr;
mod supervisor;
mod tasks;
mod tsa_daemon;

use clap::{Command, CommandFactory};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let started_as = arguments.first().map(|a| Path::new(a).file_name().unwrap_or(a).to_owned()).unwrap_or_default();
    if let Some(verb) = verb(&started_as) {
        return finish((verb.run)(arguments));
    }
    if arguments.len() < 2 {
        eprintln!("{}", usage());
        return ExitCode::from(2);
    }
    let word = arguments.remove(1);
    match (verb(&word), word.to_str()) {
        (Some(verb), _) => {
            // What its help calls it.
            arguments[0] = if verb.is_program { word } else { format!("postrider {}", verb.name).into() };
            finish((verb.run)(arguments))
        }
        (None, Some("--version" | "-V")) => {
            println!("postrider {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        (None, Some("--help" | "-h" | "help")) => finish(pages::print(format!("{}\n", usage()).as_bytes())),
        _ => {
            eprintln!("postrider: unknown verb `{}`\n{}", word.display(), usage());
            ExitCode::from(2)
        }
    }
}

type Tool = fn(Vec<OsString>) -> anyhow::Result<ExitCode>;

/// What the program answers to.
struct Verb {
    name: &'static str,
    /// In a line.
    does: &'static str,
    /// Whether it is installed under that name too.
    is_program: bool,
    run: Tool,
    /// Its command line, for those who tell of it.
    words: fn() -> Command,
}

impl Verb {
    const fn program(name: &'static str, does: &'static str, run: Tool, words: fn() -> Command) -> Verb {
        Verb { is_program: true, ..Verb::of_postrider(name, does, run, words) }
    }

    const fn of_postrider(name: &'static str, does: &'static str, run: Tool, words: fn() -> Command) -> Verb {
        Verb { name, does, is_program: false, run, words }
    }
}

/// All of them, as the help lists them.
#[rustfmt::skip] // a line each
static VERBS: [Verb; 17] = [
    Verb::of_postrider("serve", "run the mail server on safe embedded defaults", serve::run, serve::Options::command),
    Verb::of_postrider("try", "show within a minute what becomes of mail, on loopback alone", cli::try_out, cli::TryOptions::command),
    Verb::of_postrider("init", "write a policy for this server: four questions", cli::init, cli::InitOptions::command),
    Verb::of_postrider("doctor", "tell what keeps mail from moving, and what helps", doctor, cli::DoctorOptions::command),
    Verb::of_postrider("check", "tell what a policy sets, and what of it is doubtful", daemon::check, daemon::Checked::command),
    Verb::program("kumod", "run the mail server with a KumoMTA policy script", daemon::run, daemon::Options::command),
    Verb::program("tsa-daemon", "run the traffic shaping daemon: rules for what servers answer", tsa_daemon::run, tsa_daemon::Options::command),
    Verb::program("kcli", "ask a running server, and give it orders", kcli::run, kcli::Kcli::command),
    Verb::program("tailer", "print log records, and those that come", kcli::tailer, kcli::TailerOptions::command),
    Verb::of_postrider("spool", "look at a spool, running or not, or save mail from it", spool, cli::SpoolOptions::command),
    Verb::of_postrider("selftest", "prove on this disk that a power cut loses no mail", selftest, cli::SelftestOptions::command),
    Verb::of_postrider("classify", "tell the bounce class of a reply, and the rule that says so", cli::classify, cli::ClassifyOptions::command),
    Verb::program("validate-bounces", "tell whether bounce rules read", cli::validate_bounces, cli::FilesToValidate::command),
    Verb::program("traffic-gen", "send test mail to a server", traffic::traffic_gen::run, traffic::traffic_gen::Options::command),
    Verb::program("smtp-sink", "take mail and throw it away", traffic::smtp_sink::run, traffic::smtp_sink::Options::command),
    Verb::of_postrider("man", "write the manual pages of all of these", pages::man, pages::Man::command),
    Verb::of_postrider("completions", "write what shells complete of them", pages::completions, pages::Completions::command),
];

fn verb(name: &OsStr) -> Option<&'static Verb> {
    VERBS.iter().find(|verb| name == verb.name)
}

fn doctor(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    cli::doctor(arguments, daemon::configured)
}

fn spool(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    cli::spool(arguments, defaults::tools())
}

fn selftest(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    cli::selftest(arguments, defaults::tools())
}

/// One clear line for whatever kept the program from its work, and exit 1.
fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {}", cli::causes(&error));
        ExitCode::FAILURE
    })
}

fn usage() -> String {
    let mut text = "usage: postrider VERB [OPTIONS]\n".to_owned();
    for Verb { name, does, .. } in &VERBS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name:<16}  {does}");
    }
    text + "\n\nEach verb has --help. Installed under a verb's name, the program is that verb."
}
