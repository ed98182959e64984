//! `kumod`: the mail server with KumoMTA's command line.

use crate::listeners::{self, Bound};
use crate::{certificates, diagnostics, early_signals, explain, handover, memory, pages, privileges, serve};
use anyhow::{Context, bail};
use clap::Parser;
use lua::LuaPolicy;
use policy::Startup;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use telemetry::Lines;

/// The mail server, driven by a KumoMTA policy script.
#[derive(Debug, Parser)]
#[command(name = "kumod", version)]
pub(crate) struct Options {
    /// The policy script.
    #[arg(long, default_value = "/opt/kumomta/etc/policy/init.lua")]
    policy: PathBuf,
    /// Run the script up to init, print what its settings do, and which of them are doubtful; start nothing.
    #[arg(long)]
    validate: bool,
    /// Run the script's handler of `main` and end; start nothing.
    #[arg(long, conflicts_with = "validate")]
    script: bool,
    /// An argument for `main`; may be given several times. Better: all of them behind `--`.
    #[arg(long, requires = "script", value_name = "ARGUMENT")]
    script_args: Vec<String>,
    /// Arguments for `main`.
    #[arg(last = true, requires = "script", conflicts_with = "script_args")]
    arguments: Vec<String>,
    /// User to become once listeners are bound; required when started as root.
    #[arg(long)]
    user: Option<String>,
    /// Print what is answered over HTTP, as OpenAPI, and end.
    #[arg(long)]
    dump_openapi_spec: bool,
    /// Print what metrics there are, as JSON, and end.
    #[arg(long)]
    dump_metric_metadata: bool,
    #[command(flatten)]
    diagnostics: diagnostics::Options,
}

/// Runs until stopped.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            error.print().context("stderr")?;
            return Ok(ExitCode::from(error.exit_code() as u8));
        }
    };
    if options.dump_openapi_spec {
        println!("{}", admin::openapi());
        return Ok(ExitCode::SUCCESS);
    }
    if options.dump_metric_metadata {
        let all: Vec<_> = engine::metric_metadata()?.iter().map(telemetry::Described::to_json).collect();
        return pages::print(format!("{:#}\n", serde_json::Value::from(all)).as_bytes());
    }
    if options.user.is_none() && privileges::is_root() {
        bail!("started as root without --user: name the user to become once listeners are bound");
    }
    let diagnostics = match options.validate || options.script {
        true => diagnostics::on_stderr("error")?,
        false => diagnostics::start(&options.diagnostics, options.user.as_deref())?,
    };
    if options.validate {
        // What that user cannot read is not there for the server either.
        options.user.as_deref().map(privileges::become_user).transpose()?;
        return validate(&options.policy);
    }
    if options.script {
        options.user.as_deref().map(privileges::become_user).transpose()?;
        return command(&options.policy, [options.script_args, options.arguments].concat());
    }
    early_signals::hold().context("signals")?;
    let (policy, startup) = LuaPolicy::load_on(&options.policy, memory::found()?.limits)?;
    let bound = Bound::new(&startup)?;
    if let Some(user) = &options.user {
        privileges::become_user(user)?;
        policy.check().context("after becoming the user given with --user")?;
    }
    let policy_file = Some(options.policy);
    let (throttles, names) = (policy.throttles(), policy.names());
    let shared = serve::Shared { throttles, names, policy_file, diagnostics: Some(diagnostics) };
    serve::serve(Arc::new(policy), shared, startup, bound)
}

/// Runs a policy file as a command.
fn command(file: &Path, arguments: Vec<String>) -> anyhow::Result<ExitCode> {
    let policy = LuaPolicy::load_script(file, memory::found()?.limits)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let ended = runtime.block_on(policy.run_main(arguments));
    // What it began and did not wait for ends with it.
    runtime.shutdown_background();
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what a policy sets, and what of it is doubtful. Nothing is started.
#[derive(Debug, Parser)]
#[command(name = "postrider check", version)]
pub(crate) struct Checked {
    /// The policy script.
    #[arg(default_value = "/opt/kumomta/etc/policy/init.lua")]
    policy: PathBuf,
    /// Who runs the script when root calls: kumod, where there is one, unless given.
    #[arg(long)]
    user: Option<String>,
}

/// `postrider check`, the same as `kumod --validate`.
pub fn check(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let options = match Checked::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            error.print().context("stderr")?;
            return Ok(ExitCode::from(error.exit_code() as u8));
        }
    };
    // Nothing runs that could change it.
    drop(diagnostics::on_stderr("error")?);
    privileges::become_reader(options.user.as_deref())?;
    validate(&options.policy)
}

/// A policy for `postrider doctor`: what it sets, and whom it asks for names. Nothing is started. Root reads none: it becomes
/// `user` first, and stays him.
pub fn configured(file: Option<&Path>, user: &str) -> anyhow::Result<cli::Configured> {
    let (startup, remarks) = match file {
        None => (Startup::default(), Vec::new()),
        Some(file) => {
            if privileges::is_root() {
                privileges::become_user(user)?;
            }
            let (startup, mut remarks) = LuaPolicy::validate_on(file, memory::found()?.limits)?;
            listeners::check(&startup)?;
            serve::check_names(&startup.dns)?;
            // What is listened with is looked at all the same.
            remarks.extend(certificates::check(&startup).err().map(|error| cli::causes(&error)));
            remarks.extend(explain::remarks(&startup));
            (startup, remarks)
        }
    };
    let resolver = net::dns::chosen_resolver(&startup.dns)?;
    Ok(cli::Configured { startup, remarks, resolver })
}

/// Tries a policy out and prints what it sets.
fn validate(file: &Path) -> anyhow::Result<ExitCode> {
    let (startup, warnings) = LuaPolicy::validate_on(file, memory::found()?.limits)?;
    judge(&startup)?;
    handover::try_sockets(&startup)?;
    explain::settings(&startup).iter().for_each(|line| println!("{line}"));
    warnings.iter().chain(&explain::remarks(&startup)).for_each(|line| println!("warning: {line}"));
    println!("OK");
    Ok(ExitCode::SUCCESS)
}

/// Whether a program could start with it, as far as that can be told without starting.
fn judge(startup: &Startup) -> anyhow::Result<()> {
    listeners::check(startup)?;
    certificates::check(startup)?;
    serve::check_names(&startup.dns)?;
    startup.bounce_classifier.as_ref().map(serve::classifier_of).transpose()?;
    serve::log_hooks(&startup.log_hooks)?;
    for stream in &startup.event_streams {
        let of = || format!("kumo.configure_event_stream `{}`", stream.name);
        event_stream::check(stream).with_context(of)?;
    }
    startup.otlp_metrics.as_ref().map(metrics_export::check).transpose().context("kumo.configure_otlp_metrics")?;
    startup.local_logs.iter().try_for_each(|logs| Lines::of(&logs.per_record).map(|_| ()))?;
    Ok(())
}
