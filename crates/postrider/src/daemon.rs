//! `kumod`: the mail server with KumoMTA's command line.

use crate::{diagnostics, memory, privileges, serve};
use anyhow::{Context, bail};
use clap::Parser;
use lua::LuaPolicy;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use telemetry::Lines;

/// The mail server, driven by a KumoMTA policy script.
#[derive(Debug, Parser)]
#[command(name = "kumod", version)]
struct Options {
    /// The policy script.
    #[arg(long, default_value = "/opt/kumomta/etc/policy/init.lua")]
    policy: PathBuf,
    /// Run the script up to init and report; start nothing.
    #[arg(long)]
    validate: bool,
    /// User to become once listeners are bound; required when started as root.
    #[arg(long)]
    user: Option<String>,
    /// Form of the diagnostic log on stderr.
    #[arg(long, value_enum, default_value = "full")]
    diag_format: diagnostics::Format,
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
    diagnostics::start(options.diag_format, if options.validate { "error" } else { "info" })?;
    if options.user.is_none() && privileges::is_root() {
        bail!("started as root without --user: name the user to become once listeners are bound");
    }
    if options.validate {
        let startup = LuaPolicy::validate(&options.policy)?;
        for listener in &startup.esmtp_listeners {
            serve::address(&listener.listen)?;
        }
        serve::check_names(&startup.dns)?;
        startup.bounce_classifier.as_ref().map(serve::classifier_of).transpose()?;
        serve::log_hooks(&startup.log_hooks)?;
        startup.local_logs.iter().try_for_each(|logs| Lines::of(&logs.per_record).map(|_| ()))?;
        println!("OK");
        return Ok(ExitCode::SUCCESS);
    }
    let (policy, startup) = LuaPolicy::load_on(&options.policy, memory::found()?.limits)?;
    let bound = serve::Bound::new(&startup)?;
    if let Some(user) = &options.user {
        privileges::become_user(user)?;
        policy.check().context("after becoming the user given with --user")?;
    }
    let policy_file = Some(options.policy);
    let shared = serve::Shared { throttles: policy.throttles(), names: policy.names(), policy_file };
    serve::serve(Arc::new(policy), shared, startup, bound)
}
