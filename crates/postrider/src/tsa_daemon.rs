//! `tsa-daemon`: traffic shaping automation with KumoMTA's command line.

use crate::reload::{self, Watched};
use crate::supervisor::Supervisor;
use crate::{diagnostics, identity, listeners, memory, privileges, serve};
use anyhow::{Context, anyhow, bail};
use clap::Parser;
use engine::{Diagnostics, Gate, Vitals};
use lua::LuaPolicy;
use net::listen;
use policy::{Policy, Startup};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::Accounts;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tsa::{Around, Facts, Keeper, KeptFile, ReadAgain, TsaService};
use uuid::Uuid;

/// The traffic shaping daemon, driven by a policy script.
#[derive(Debug, Parser)]
#[command(name = "tsa-daemon", version)]
pub(crate) struct Options {
    /// The policy script.
    #[arg(long, default_value = "/opt/kumomta/etc/tsa/init.lua")]
    policy: PathBuf,
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
    let began = Instant::now();
    let diagnostics = diagnostics::start(&options.diagnostics, None)?;
    let (policy, startup) = LuaPolicy::load_tsa(&options.policy, memory::found()?.limits)?;
    check(&startup)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("runtime")?;
    let ended = runtime.block_on(run_async((policy, startup), options.policy, (diagnostics, began)));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

async fn run_async(
    (policy, startup): (LuaPolicy, Startup),
    file: PathBuf,
    (diagnostics, began): (Diagnostics, Instant),
) -> anyhow::Result<ExitCode> {
    privileges::raise_file_limit()?;
    let watched = Watched::new(Some(file), startup.config_monitor_globs.clone());
    serve::set_names(&policy.names(), &startup.dns)?;
    let database = startup.tsa_db_path.as_deref().unwrap_or(DATABASE);
    let policy: Arc<dyn Policy> = Arc::new(policy);
    let accounts = Accounts::open(startup.acct_log.as_ref()).context("kumo.aaa.configure_acct_log")?;
    let gate = Gate::new(policy.clone(), accounts.clone());
    let keeper = Keeper::open(policy.clone(), KeptFile::beside(database))?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let hangup = signal(SignalKind::hangup())?;
    let (stopping, stop) = watch::channel(false);
    let node_id = node_id(database).to_string();
    let startup = Arc::new(startup);
    let reading = Arc::new(Reading {
        policy: policy.clone(),
        keeper: keeper.clone(),
        startup: startup.clone(),
        turn: Semaphore::new(1),
    });
    let facts = Arc::new(Facts {
        hostname: identity::hostname(),
        node_id,
        began,
        read_again: reading.clone().when_asked(),
        diagnostics,
        vitals: vitals(&policy, &startup)?,
        gate: gate.clone(),
        subscribers: Facts::places(),
    });
    policy.serves_in(Box::new(Around::new(&facts)));
    keeper.try_to_load_rules().await;
    let mut services = JoinSet::new();
    for options in &startup.http_listeners {
        let socket = listen::into_tokio(listen::bind(listeners::address(&options.listen)?)?)?;
        let service = TsaService::new(gate.clone(), keeper.clone(), options, facts.clone(), stop.clone())?;
        listeners::announce("http", &socket);
        services.spawn(service.serve(socket));
    }
    let supervisor = Supervisor::found();
    let read = async move |_: &str, _| reading.again().await;
    let reloads = tokio::spawn(reload::watch(read, watched, hangup, supervisor.clone()));
    eprintln!("initialization complete");
    let life = tokio::spawn(supervisor.clone().watch(vec![Handle::current()], || ()));
    let vitals = facts.vitals.clone();
    let watching = tokio::spawn(async move { vitals.watch().await });
    supervisor.ready();
    let stopped = async {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        supervisor.stopping(STOP_MAX * 2);
        tracing::info!("stopping");
        // Somebody listens: the receiver above.
        let _ = stopping.send(true);
        // Those who do not let go in time are cut off.
        let _ = tokio::time::timeout(STOP_MAX, async { while services.join_next().await.is_some() {} }).await;
    };
    keeper.work(stopped).await;
    reloads.abort();
    life.abort();
    watching.abort();
    accounts.close();
    Ok(ExitCode::SUCCESS)
}

/// Memory against what the system allows, or the policy.
fn vitals(policy: &Arc<dyn Policy>, startup: &Startup) -> anyhow::Result<Vitals> {
    let found = memory::found()?.with(startup.memory);
    let probe = Arc::new(memory::Probe::new(&found)?);
    Vitals::new(policy.clone(), found.limits, probe).context("metrics")
}

/// Kept where effects are, if that is anywhere and can be written; else another at each start.
fn node_id(database: &str) -> Uuid {
    let file = KeptFile::beside(database);
    let Some(dir) = file.as_ref().and_then(|file| file.path().parent()) else { return Uuid::new_v4() };
    identity::node_id(dir).unwrap_or_else(|error| {
        tracing::warn!("this node has another id at each start: {error:#}");
        Uuid::new_v4()
    })
}

/// What reading the policy again is about.
struct Reading {
    policy: Arc<dyn Policy>,
    keeper: Keeper,
    /// As it was at the start.
    startup: Arc<Startup>,
    /// One at a time.
    turn: Semaphore,
}

impl Reading {
    /// The same for who asks over HTTP.
    fn when_asked(self: Arc<Reading>) -> ReadAgain {
        Box::new(move || {
            let reading = self.clone();
            Box::pin(async move { reading.again().await.map_err(|error| format!("{error:#}")) })
        })
    }

    /// Reads policy and rules again. When the policy is wrong nothing has changed; when only the rules are, they alone stay.
    async fn again(&self) -> anyhow::Result<()> {
        let _turn = self.turn.acquire().await;
        let (policy, before) = (self.policy.clone(), self.startup.clone());
        let read = move || policy.reload(&mut |now, _| check_again(&before, &now));
        tokio::task::spawn_blocking(read).await??;
        let loaded = self.keeper.load_rules().await;
        loaded.map_err(|error| anyhow!("the policy is the new one, the rules stay as they were: {error}"))
    }
}

/// Refuses what only the mail server has, and what was opened at the start and would be another.
fn check_again(before: &Startup, now: &Startup) -> Result<(), String> {
    check(now).map_err(|error| error.to_string())?;
    let mut parts = before.needs_restart_for(now);
    let own = [
        ("tsa.start_http_listener", before.http_listeners != now.http_listeners),
        ("tsa.configure_tsa_db_path", before.tsa_db_path != now.tsa_db_path),
    ];
    parts.extend(own.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()));
    match parts.is_empty() {
        true => Ok(()),
        false => Err(format!("{} differs from what was opened at the start: restart tsa-daemon", parts.join(", "))),
    }
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
