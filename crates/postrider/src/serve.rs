//! From start-up values to a running server: the system diagram, read from top to bottom.
//!
//! Sockets are bound first, so that a port in use is the first thing said; then the caller may
//! drop privileges; then spool and logs are opened and listeners are served until the process is
//! told to stop. Mail found in the spool goes back to its queues beside that.

use crate::handover::{Heard, Program, Successor};
use crate::listeners::{Bound, Held, Listeners};
use crate::privileges::Files;
use crate::reload::{self, Watched};
use crate::supervisor::Supervisor;
use crate::{allocator, choices, defaults, diagnostics, early_signals, identity, memory, privileges, spools, tasks};
use admin::Local;
use anyhow::{Context, anyhow};
use bounce::{Classifier, Remembered};
use clap::Parser;
use config::{BounceClassifier, DnsSettings, LogHook};
use engine::pressure::{Pressure, PressureSettings, Volume};
use engine::{Diagnostics, Engine, EngineParts, EngineSettings, RecordHook, Threads};
use lua::{Names, Resolvers};
use net::dns::MxCache;
use net::listen;
use net::mta_sts::{HttpsFetch, PolicyFetch, StsPolicies, TestPolicies};
use policy::{Policy, Startup, StaticPolicy};
use queue::schedule;
use signal_hook::consts::{SIGINT, SIGTERM};
use spool::Settings;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use store::{OrdersFile, Recovering, SpoolHandle};
use telemetry::Metrics;
use throttle::Throttles;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

/// The mail server on embedded defaults: relays for this machine, delivers by MX.
#[derive(Debug, Parser)]
#[command(name = "postrider serve", version)]
pub(crate) struct Options {
    /// Where to listen for SMTP.
    #[arg(long, default_value = "127.0.0.1:2025")]
    listen: String,
    /// Where to listen for HTTP.
    #[arg(long, default_value = "127.0.0.1:8000")]
    http: String,
    /// Where spool and logs are kept.
    #[arg(long)]
    state: Option<PathBuf>,
    /// User to become once listeners are bound.
    #[arg(long)]
    user: Option<String>,
}

/// `postrider serve`.
pub fn run(arguments: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => {
            error.print().context("stderr")?;
            return Ok(ExitCode::from(error.exit_code() as u8));
        }
    };
    let diagnostics = Some(diagnostics::on_stderr("info")?);
    let state = options.state.unwrap_or_else(|| defaults::state_dir(privileges::is_root()));
    early_signals::hold().context("signals")?;
    let startup = defaults::startup(&state, &options.listen, &options.http)?;
    let bound = Bound::new(&startup)?;
    if let Some(user) = &options.user {
        privileges::become_user(user)?;
    } else if privileges::is_root() {
        tracing::warn!("running as root: --user names a user to become");
    }
    eprintln!("spool and logs are in {}", state.display());
    serve(Arc::new(StaticPolicy), Shared { diagnostics, ..Shared::default() }, startup, bound)
}

/// What the policy's scripts share with the server.
#[derive(Default)]
pub struct Shared {
    /// Their throttles.
    pub throttles: Arc<Throttles>,
    /// Who they ask for names; nobody until the server begins.
    pub names: Arc<Names>,
    /// The file it was loaded from, if any.
    pub policy_file: Option<PathBuf>,
    /// What filters the diagnostic log.
    pub diagnostics: Option<Diagnostics>,
}

/// Runs the server until it is told to stop.
pub fn serve(policy: Arc<dyn Policy>, mut shared: Shared, startup: Startup, bound: Bound) -> anyhow::Result<ExitCode> {
    allocator::hold_back();
    let workers = lua::available_parallelism();
    let threads = || {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).thread_stack_size(stack_octets()).enable_all();
        builder
    };
    let runtime = threads().build().context("runtime")?;
    let crowd = threads().thread_name("crowd").build();
    let crowd = crowd.context("runtime for many sessions")?;
    let threads = Threads::on_cores(workers, runtime.handle().clone(), crowd.handle().clone());
    let ended = runtime.block_on(async {
        if let Some(redis) = &startup.redis_throttles {
            shared.throttles.share(redis).await?;
        }
        serve_async(policy, &mut shared, startup, bound, threads).await
    });
    // A thread stuck in a system call must not keep the process.
    crowd.shutdown_timeout(Duration::from_secs(1));
    runtime.shutdown_timeout(Duration::from_secs(1));
    match ended? {
        Ended::With(code) => Ok(code),
        Ended::ToBeReplaced(successor) => successor.take_over().map(|()| ExitCode::SUCCESS),
    }
}

/// How serving ended.
enum Ended {
    /// The program is over.
    With(ExitCode),
    /// Another one takes its place and its sockets.
    ToBeReplaced(Successor),
}

/// Templates come with requests, and where nobody goes down to is no memory; but it is address space.
fn stack_octets() -> usize {
    match memory::address_space() {
        None => template::STACK_OCTETS,
        Some(_) => STACK_OCTETS_WHERE_COUNTED,
    }
}

async fn serve_async(
    policy: Arc<dyn Policy>,
    shared: &mut Shared,
    mut startup: Startup,
    bound: Bound,
    threads: Threads,
) -> anyhow::Result<Ended> {
    let as_written = startup.clone();
    let watched = Watched::new(shared.policy_file.clone(), startup.config_monitor_globs.clone());
    let supervisor = Supervisor::found();
    let plan = spools::Plan::new(&startup.spools)?;
    let (spool, recovering) = open_spool(&plan)?;
    say_limits(&mut startup, bound.files, threads.few_sessions);
    plan.notice.iter().for_each(|notice| tracing::info!("{notice}"));
    let limits = memory::found()?.with(startup.memory);
    let settings = EngineSettings {
        hostname: identity::hostname(),
        node_id: identity::node_id(&plan.dir)?,
        spool_dir: plan.dir.clone(),
        resident_bytes_max: resident_bytes_max(&limits),
        seed: identity::seed()?,
    };
    let pressure = pressure_of(&startup, &limits, &plan)?;
    // The variable OpenSSL's programs know; set, it replaces the host's trust roots.
    let connectors = net::tls::Connectors::of_system().context("SSL_CERT_FILE")?;
    let classifier = startup.bounce_classifier.as_ref().map(classifier_of).transpose()?;
    let mx = Arc::new(mail_names(&startup.dns, &connectors)?);
    shared.names.set(Resolvers { mail: mx.clone(), named: net::dns::named_resolvers(&startup.dns)? });
    let engine = Engine::new(EngineParts {
        policy: policy.clone(),
        spool,
        mx,
        connectors,
        classifier,
        read_rules: |options| classifier_of(options).map_err(|error| cli::causes(&error)),
        startup: as_written.clone(),
        metrics: Metrics::new()?,
        pressure: Pressure::new(pressure),
        threads: threads.clone(),
        orders: OrdersFile::open(&plan.dir)?,
        settings,
    });
    let engine = engine.map_err(|error| anyhow!(error))?;
    engine.share_limits(shared.throttles.clone());
    shared.diagnostics.take().into_iter().for_each(|change| engine.set_diagnostics(change));
    if let Some(filter) = startup.diagnostic_filter.as_ref().filter(|_| !diagnostics::is_given()) {
        engine.filter_diagnostics(filter).map_err(|error| anyhow!("kumo.set_diagnostic_log_filter: {error}"))?;
    }
    // Everything that can fail comes before the first message moves.
    let hangup = signal(SignalKind::hangup())?;
    let stops = Stops::new()?;
    let tasks = std::mem::take(&mut startup.tasks);
    let listeners = Listeners::open(&engine, &startup, bound).await?;
    let held = listeners.held();
    engine.set_sockets(Box::new(listeners));
    engine.set_administration(Box::new(Local));
    engine.start(recovering);
    let tasks = tasks::start(&policy, &engine, tasks);
    let reloading = engine.clone();
    let read = async move |origin: &str, files| reloading.read_again(origin, files).await;
    let reloads = tokio::spawn(reload::watch(read, watched, hangup, supervisor.clone()));
    let life = watch_life(&supervisor, &engine, threads);
    eprintln!("initialization complete");
    supervisor.ready();
    let ended = stops.run(&engine, &supervisor, &held).await;
    reloads.abort();
    life.abort();
    tasks.end();
    ended
}

/// Tells the service manager that both runtimes and the queues' lock come back.
fn watch_life(supervisor: &Supervisor, engine: &Engine, threads: Threads) -> JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(supervisor.clone().watch(vec![threads.main, threads.crowd], move || engine.pulse()))
}

/// Memory and disks as they are looked after.
fn pressure_of(startup: &Startup, limits: &memory::Found, plan: &spools::Plan) -> anyhow::Result<PressureSettings> {
    Ok(PressureSettings {
        memory: Arc::new(memory::Probe::new(limits)?),
        limits: limits.limits,
        volumes: Volume::all(startup, &plan.dir),
        delivers_when_spool_unhealthy: startup.delivers_when_spool_unhealthy,
    })
}

/// Says what is wrong with the policy's resolver or its MTA-STS policies, if anything is. Asks nobody.
pub fn check_names(dns: &DnsSettings) -> anyhow::Result<()> {
    net::dns::named_resolvers(dns)?;
    mail_names(dns, &net::tls::Connectors::new(None)?).map(|_| ())
}

/// Has scripts ask for names as the policy wants it.
pub fn set_names(names: &Names, dns: &DnsSettings) -> anyhow::Result<()> {
    let connectors = net::tls::Connectors::of_system().context("SSL_CERT_FILE")?;
    names.set(Resolvers { mail: Arc::new(mail_names(dns, &connectors)?), named: net::dns::named_resolvers(dns)? });
    Ok(())
}

/// Look-ups as the policy wants them.
fn mail_names(dns: &DnsSettings, connectors: &net::tls::Connectors) -> anyhow::Result<MxCache> {
    let resolver = net::dns::chosen_resolver(dns)?;
    let names = MxCache::new(resolver.clone(), net::dns::cache_limits(dns));
    if !dns.is_mta_sts_enabled {
        return Ok(names);
    }
    let fetcher: Box<dyn PolicyFetch> = match dns.test_mta_sts.is_empty() {
        true => Box::new(HttpsFetch { resolver, connector: connectors.https()?, port: dns.mta_sts_port }),
        false => Box::new(
            TestPolicies::new(&dns.test_mta_sts)
                .map_err(|(domain, error)| anyhow!("kumo.dns.configure_test_mta_sts: {domain}: {error}"))?,
        ),
    };
    Ok(names.with_mta_sts(StsPolicies::new(fetcher)))
}

/// The log hooks a policy configures.
pub fn log_hooks(options: &[LogHook]) -> anyhow::Result<Vec<Arc<RecordHook>>> {
    let hook = |hook: &LogHook| {
        let of = || format!("kumo.configure_log_hook `{}`", hook.name);
        RecordHook::new(hook.clone()).with_context(of)
    };
    options.iter().map(hook).collect()
}

/// The classifier a policy configures. `pool_size` and `back_pressure` have nothing to act on: an answer takes less time
/// than handing the question to another thread.
pub fn classifier_of(options: &BounceClassifier) -> anyhow::Result<Classifier> {
    let remembered = Remembered { classified: options.cache_size, uncategorized: options.uncategorized_cache_size };
    cli::read_rules(&options.files, remembered).context("kumo.configure_bounce_classifier")
}

/// The signals that stop the program, caught from before the first listener is announced.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
    replace: Signal,
    /// What the first two say, whether anybody waits for them or not.
    heard: Heard,
    program: Program,
}

impl Stops {
    fn new() -> anyhow::Result<Stops> {
        let heard = Heard::default();
        for kind in [SIGTERM, SIGINT] {
            signal_hook::flag::register(kind, heard.is_stopped.clone()).context("signals")?;
            signal_hook::flag::register_conditional_shutdown(kind, 0, heard.ends_at_once.clone()).context("signals")?;
        }
        Ok(Stops {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            replace: {
                let replace = signal(SignalKind::user_defined2())?;
                early_signals::hear().context("signals")?;
                replace
            },
            heard,
            program: Program::this().context("the program's own file")?,
        })
    }

    /// The first signal drains, a second one stops now; one that stops a restart counts as the first. An engine that stops by itself has failed.
    async fn run(mut self, engine: &Engine, supervisor: &Supervisor, held: &Held) -> anyhow::Result<Ended> {
        let mut ended = self.end(engine, held).await;
        match ended {
            Ended::With(_) => supervisor.stopping(engine.drains_within(DRAIN_GRACE)),
            // The process stays, and will say that it is ready again.
            Ended::ToBeReplaced(_) => supervisor.reloading(),
        }
        tracing::info!("stopping: finishing what is in hand; a second signal stops at once");
        let drained = engine.drain(DRAIN_GRACE);
        tokio::pin!(drained);
        loop {
            tokio::select! {
                () = &mut drained => break,
                () = self.next() => {}
            }
            if let Ended::With(_) = ended {
                tracing::warn!("stopped at once");
                std::process::exit(1);
            }
            tracing::info!("stopping: no other program takes this one's place");
            ended = Ended::With(ExitCode::SUCCESS);
        }
        if let Ended::ToBeReplaced(_) = ended {
            tracing::info!("giving place to the other program");
        }
        Ok(ended)
    }

    /// How serving ends: waits for it.
    async fn end(&mut self, engine: &Engine, held: &Held) -> Ended {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return Ended::With(ExitCode::SUCCESS),
                _ = self.interrupt.recv() => return Ended::With(ExitCode::SUCCESS),
                () = engine.draining() => return Ended::With(ExitCode::FAILURE),
                _ = self.replace.recv() => {}
            }
            match self.successor(engine, held).await {
                Ok(Ok(successor)) => return Ended::ToBeReplaced(successor),
                Ok(Err(error)) => tracing::error!("no restart: {}", cli::causes(&error)),
                Err(ended) => return ended,
            }
        }
    }

    /// What takes this program's place, if it can; how serving ended, if it did meanwhile.
    async fn successor(&mut self, engine: &Engine, held: &Held) -> Result<anyhow::Result<Successor>, Ended> {
        let (program, sockets) = (self.program.clone(), held.addresses());
        let trial = tokio::task::spawn_blocking(move || program.try_out(&sockets));
        let tried = self.unless_ended(engine, trial).await?;
        if let Err(error) = tried.context("trying the new program out").flatten() {
            return Ok(Err(error));
        }
        let mut kept = self.unless_ended(engine, held.take_http()).await?;
        kept.extend(held.take());
        Ok(Ok(Successor { program: self.program.clone(), kept, heard: self.heard.clone() }))
    }

    async fn unless_ended<T>(&mut self, engine: &Engine, work: impl Future<Output = T>) -> Result<T, Ended> {
        tokio::select! {
            done = work => Ok(done),
            _ = self.terminate.recv() => Err(Ended::With(ExitCode::SUCCESS)),
            _ = self.interrupt.recv() => Err(Ended::With(ExitCode::SUCCESS)),
            () = engine.draining() => Err(Ended::With(ExitCode::FAILURE)),
        }
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.terminate.recv() => {}, _ = self.interrupt.recv() => {} }
    }
}

/// Opens the spool; messages of earlier runs come back beside the service.
fn open_spool(plan: &spools::Plan) -> anyhow::Result<(SpoolHandle, Recovering)> {
    let mut options = store::Options { kind: plan.kind, ..store::Options::default() };
    // A message that names no queue is left in the spool, and said so, when it is queued.
    options.settings.queue_of = |envelope, meta| schedule::label_for(envelope, meta).unwrap_or_default();
    let opened = store::open(&plan.dir, options)?;
    let disk_octets = store::free(&plan.dir).context("the size of the spool's file system")?.octets_total;
    let of_log = plan.kind == store::Kind::Log;
    let segments = of_log.then(|| choices::segments(Settings::for_disk(disk_octets).segment_octets, disk_octets));
    let commits = choices::commits(plan.kind, opened.0.sync_time());
    choices::say(&[Some(commits), segments].into_iter().flatten().collect::<Vec<_>>());
    Ok(opened)
}

/// Processors of this machine; 0 if it does not say.
fn cores_online() -> usize {
    let count = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}

/// Says what bounds work and connections, and bounds those of listeners that files would not suffice for.
fn say_limits(startup: &mut Startup, files: Files, few_sessions: usize) {
    let somaxconn = choices::sysctl("net/core/somaxconn").map(|(first, _)| first);
    let ports = choices::sysctl("net/ipv4/ip_local_port_range").and_then(|(low, high)| Some((low, high?)));
    let choices = [
        Some(choices::workers(lua::available_parallelism(), cores_online(), few_sessions)),
        Some(choices::files(files)),
        choices::connections(&mut startup.esmtp_listeners, files),
        choices::http_connections(startup.http_listeners.len(), admin::connections_max()),
        Some(choices::backlog(listen::BACKLOG, somaxconn)),
        choices::local_ports(ports),
    ];
    choices::say(&choices.into_iter().flatten().collect::<Vec<_>>());
}

/// A quarter of the memory this process may use, in octets: the budget of content that could leave it. Says so.
fn resident_bytes_max(found: &memory::Found) -> usize {
    let hard = found.limits.hard.unwrap_or(FALLBACK_OCTETS);
    let octets = usize::try_from(hard / 4).unwrap_or(usize::MAX);
    choices::say(&[choices::memory(found, octets)]);
    octets
}

/// How long deliveries in hand may take to end. What is cut short is in the spool.
const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// Memory assumed when the system does not tell, in octets.
const FALLBACK_OCTETS: u64 = 1 << 30;
/// Stack of a thread where address space is limited, in octets.
const STACK_OCTETS_WHERE_COUNTED: usize = 4 << 20;
