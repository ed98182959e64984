//! `tsa-daemon`: traffic shaping automation with KumoMTA's command line.

use crate::supervisor::Supervisor;
use crate::{diagnostics, identity, listeners, memory, serve};
use anyhow::{Context, bail};
use clap::Parser;
use engine::Gate;
use lua::LuaPolicy;
use net::listen;
use policy::{Policy, Startup};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use telemetry::Accounts;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tsa::{Keeper, KeptFile, TsaService};

/// The traffic shaping daemon, driven by a policy script.
#[derive(Debug, Parser)]
#[command(name = "tsa-daemon", version)]
struct Options {
    /// The policy script.
    #[arg(long, default_value = "/opt/kumomta/etc/tsa/init.lua")]
    policy: PathBuf,
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
    // Nobody changes it: that is the mail server's.
    drop(diagnostics::start(options.diag_format, "info")?);
    let (policy, startup) = LuaPolicy::load_tsa(&options.policy, memory::found()?.limits)?;
    check(&startup)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
    let ended = runtime.block_on(run_async(policy, startup));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn run_async(policy: LuaPolicy, startup: Startup) -> anyhow::Result<ExitCode> {
    serve::set_names(&policy.names(), &startup.dns)?;
    let database = startup.tsa_db_path.as_deref().unwrap_or(DATABASE);
    let policy: Arc<dyn Policy> = Arc::new(policy);
    let accounts = Accounts::open(startup.acct_log.as_ref()).context("kumo.aaa.configure_acct_log")?;
    let gate = Gate::new(policy.clone(), accounts.clone());
    let keeper = Keeper::open(policy.clone(), KeptFile::beside(database))?;
    keeper.load_rules().await;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (stopping, stop) = watch::channel(false);
    let mut services = JoinSet::new();
    for options in &startup.http_listeners {
        let socket = listen::into_tokio(listen::bind(listeners::address(&options.listen)?)?)?;
        let hostname = identity::hostname();
        let service = TsaService::new(gate.clone(), keeper.clone(), options, &hostname, stop.clone())?;
        listeners::announce("http", &socket);
        services.spawn(service.serve(socket));
    }
    eprintln!("initialization complete");
    let supervisor = Supervisor::found();
    let life = tokio::spawn(supervisor.clone().watch(|| ()));
    supervisor.ready();
    let stopped = async {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        supervisor.stopping();
        tracing::info!("stopping");
        // Somebody listens: the receiver above.
        let _ = stopping.send(true);
        // Those who do not let go in time are cut off.
        let _ = tokio::time::timeout(STOP_MAX, async { while services.join_next().await.is_some() {} }).await;
    };
    keeper.work(stopped).await;
    life.abort();
    accounts.close();
    Ok(ExitCode::SUCCESS)
}

/// Refuses what only the mail server has.
fn check(startup: &Startup) -> anyhow::Result<()> {
    let foreign = startup.of_the_mail_server();
    match foreign.as_slice() {
        [] if startup.http_listeners.is_empty() => bail!("tsa_init: expected tsa.start_http_listener"),
        [] => Ok(()),
        _ => bail!("tsa_init: {} is for kumod", foreign.join(", ")),
    }
}

/// Unless policy names another (KumoMTA's place).
const DATABASE: &str = "/var/spool/kumomta/tsa.db";
/// How long requests in hand may take to end.
const STOP_MAX: Duration = Duration::from_secs(5);
