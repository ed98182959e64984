//! From a queue's name to its ways out: policy and DNS, asked by one task per queue.
//!
//! Answers go back to the queue as values; no answer is an error to anybody. A queue whose
//! configuration or route cannot be had keeps its messages and is asked about again.

use crate::egress::carriage::{Carriage, parts_of};
use crate::egress::connection::Guarded;
use crate::egress::deferred::DEFERRED;
use crate::egress::service::suffix;
use crate::engine::Engine;
use crate::injection::GENERATOR;
use config::{
    EgressPath, EgressPool, EgressSource, MxListEntry, QueueConfig, QueueProtocol, RefreshStrategy, UNSPECIFIED,
    XferProtocol,
};
use message::TlsDemand;
use policy::{Event, PolicyError};
use queue::{Destination, Leg, QueueKey, QueueName, Route, RouteFailure, Why, xfer};
use route::{MailExchangers, RoutingDomain, StsFault, StsMode};
use smtp_wire::{EnhancedCode, Reply};
use std::sync::Arc;
use std::time::Duration;

impl Engine {
    /// Makes sure that a queue has its configuration before a message for it is accepted, if policy answers soon. One that asks DNS may
    /// take its time, and whoever sends is not to wait for the names of others: then the message is accepted, and waits in its queue
    /// for the configuration.
    pub(crate) async fn configure(&self, name: &str) -> Result<(), PolicyError> {
        let (key, known) = self.with_queue(|q, now| {
            let key = q.queue(now.mono, name);
            (key, q.config(key).is_some())
        });
        if known {
            return Ok(());
        }
        let begun = self.clock.mono();
        let patience = self.common.patience.for_one(begun);
        let Ok(config) = tokio::time::timeout(patience, self.ask_queue_config(name)).await else {
            self.common.patience.note_slow(self.clock.mono());
            tracing::info!(
                "queue {name}: no answer of get_queue_config within {patience:?}: its mail is accepted and waits for it"
            );
            return Ok(());
        };
        let config = config?;
        let ended = self.with_queue(|q, now| {
            q.configured(now, key, config);
            now.mono
        });
        self.metrics.latencies.queue_resolve.observe(ended.saturating_since(begun).as_secs_f64());
        Ok(())
    }

    /// Carries out `Effect::Configure`.
    pub(crate) fn configure_later(&self, key: QueueKey, name: Arc<str>) {
        let engine = self.clone();
        self.deliveries.spawn(async move {
            let asked = Guarded(Box::pin(async {
                // Those that ask nobody do not stand behind those that ask DNS.
                let _turn = match engine.own_queue_config(&name) {
                    Some(own) => return Ok(own),
                    None => engine.common.patience.turns.acquire().await,
                };
                engine.ask_queue_config(&name).await
            }));
            let Some(answer) = engine.stop.unless_requested(asked).await else { return };
            match answer {
                Some(Ok(config)) => engine.with_queue(|q, now| q.configured(now, key, config)),
                Some(Err(error)) => engine.no_configuration(key, &name, policy_failure(&error)),
                None => engine.no_configuration(key, &name, unexplained()),
            }
        });
    }

    /// Carries out `Effect::Route`.
    pub(crate) fn route_later(&self, key: QueueKey, name: Arc<str>, tls: TlsDemand, config: Arc<QueueConfig>) {
        let engine = self.clone();
        self.deliveries.spawn(async move {
            let asked = Guarded(Box::pin(engine.find_route(&name, &config, tls)));
            let Some(answer) = engine.stop.unless_requested(asked).await else { return };
            match answer {
                Some(Ok(route)) => engine.with_queue(|q, now| q.routed(now, key, route)),
                Some(Err(failure)) => engine.no_route(key, &name, failure),
                None => engine.no_route(key, &name, unexplained()),
            }
        });
    }

    fn no_configuration(&self, key: QueueKey, name: &str, failure: RouteFailure) {
        tracing::warn!("queue {name}: {}", failure.reply);
        self.with_queue(|q, now| q.unconfigured(now, key, failure));
    }

    fn no_route(&self, key: QueueKey, name: &str, failure: RouteFailure) {
        tracing::warn!("queue {name}: {}", failure.reply);
        self.with_queue(|q, now| q.unroutable(now, key, failure));
    }

    /// The configuration of a queue about which no handler is asked.
    fn own_queue_config(&self, name: &str) -> Option<Arc<QueueConfig>> {
        if let Some(target) = xfer::target_of(name) {
            return Some(Arc::new(of_xfer(target)));
        }
        match name {
            GENERATOR => Some(Arc::new(of_requests(QueueProtocol::HttpInjectionGenerator))),
            DEFERRED => Some(Arc::new(of_requests(QueueProtocol::DeferredSmtpInjection))),
            _ if self.interest.has(Event::QueueConfig) => None,
            _ => Some(self.common.queue_configs.share(Box::default())),
        }
    }

    pub(crate) async fn ask_queue_config(&self, name: &str) -> Result<Arc<QueueConfig>, PolicyError> {
        if let Some(own) = self.own_queue_config(name) {
            return Ok(own);
        }
        self.policy
            .get_queue_config(parts_of(QueueName::parse(name)))
            .await
            .map(|config| self.common.queue_configs.share(Box::new(config)))
    }

    async fn find_route(&self, name: &str, config: &QueueConfig, tls: TlsDemand) -> Result<Route, RouteFailure> {
        let parsed = QueueName::parse(name);
        let domain = parsed.effective_domain();
        let (destination, site) = self.destination(&parsed, config, tls).await?;
        let protocol = suffix(&config.protocol);
        let pool = self.pool(config.egress_pool()).await.map_err(|e| policy_failure(&e))?;
        let pool_name = self.common.pools.share(config.egress_pool());
        let mut legs = Vec::with_capacity(pool.entries.len());
        let mut fresh_for = FRESH_MAX.min(pool.ttl.get());
        for entry in &pool.entries {
            let source = self.source(&entry.name).await.map_err(|e| policy_failure(&e))?;
            let ready_name: Arc<str> = format!("{}->{site}@{protocol}", entry.name).into();
            let (kept, epoch) = self.with_queue(|q, _| (q.kept_path(&ready_name, destination.identity()), q.epoch()));
            let path = match kept {
                Some(path) => path,
                None => {
                    let path = self.path(domain, &entry.name, &site).await.map_err(|e| policy_failure(&e))?;
                    self.common.paths.share(Box::new(path))
                }
            };
            fresh_for = fresh_for.min(source.ttl.get());
            if path.refresh_strategy == RefreshStrategy::Ttl {
                fresh_for = fresh_for.min(path.refresh_interval.get());
            }
            let (source, pool) = (self.common.sources.share(source), pool_name.clone());
            let leg = Leg { source, pool, path, destination: destination.clone(), epoch };
            legs.push((ready_name, entry.weight, leg));
        }
        if legs.is_empty() {
            let text = format!("KumoMTA internal: egress pool {pool_name} has no sources");
            return Err(failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 4, 4), text));
        }
        Ok(Route { legs, fresh_for: fresh_for.max(FRESH_MIN) })
    }

    /// Where the queue's mail goes, and the name of that site. Mail whose senders demand something of TLS has destinations of
    /// its own, and so ready queues and connections.
    pub(crate) async fn destination(
        &self,
        name: &QueueName,
        config: &QueueConfig,
        tls: TlsDemand,
    ) -> Result<(Destination, String), RouteFailure> {
        let QueueProtocol::Smtp(smtp) = &config.protocol else {
            return called(name, config).map_err(|text| {
                tracing::error!("{text}");
                failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 3, 5), text)
            });
        };
        if !smtp.mx_list.is_empty() {
            let labels: Vec<String> = smtp.mx_list.iter().map(MxListEntry::label).collect();
            let exchangers = listed(&smtp.mx_list)
                .map_err(|text| failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 4, 4), text))?;
            let exchangers = if smtp.treat_mx_list_as_secure { exchangers.trusted() } else { exchangers };
            let addresses: Vec<String> = smtp.mx_list.iter().map(address_of).collect();
            let identity = format!("{}{}", addresses.join(","), identity(&exchangers, tls));
            let destination =
                Destination::new(&identity, Arc::new(Carriage::Smtp { hosts: Arc::new(exchangers), tls }));
            return Ok((destination, format!("mx_list:{}", labels.join(","))));
        }
        let hosts = self.exchangers(name.effective_domain(), tls).await?;
        if tls == TlsDemand::Required && !is_name_known(&hosts) {
            return Err(unknown_names(name.effective_domain(), hosts.sts_fault()));
        }
        let (site, identity) = (hosts.site_name().to_owned(), names_of(&hosts) + &identity(&hosts, tls));
        Ok((Destination::new(&identity, Arc::new(Carriage::Smtp { hosts, tls })), site))
    }

    /// The exchangers of a routing domain; a null MX is a failure that bounces. Where TLS is waived no policy of the domain
    /// takes hosts away (RFC 8689 section 4.2.2).
    async fn exchangers(&self, domain: &str, tls: TlsDemand) -> Result<Arc<MailExchangers>, RouteFailure> {
        let parsed = RoutingDomain::parse(domain).map_err(|e| {
            let text = format!("KumoMTA internal: routing domain `{domain}`: {e}");
            failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 4, 4), text)
        })?;
        let found = match tls {
            TlsDemand::Waived => self.mx.resolve_without_policy(&parsed).await,
            TlsDemand::Usual | TlsDemand::Required => self.mx.resolve_site(&parsed).await,
        };
        let exchangers = found.map_err(|e| local_failure(Why::FailedToInsertIntoReadyQueue, e.reply()))?;
        if exchangers.is_null_mx() {
            let reply = route::ConnectionPlan::NullMx.reply();
            return Err(reply.map_or_else(
                || failure(Why::FailedDueToNullMx, 556, EnhancedCode::new(5, 1, 10), String::new()),
                |reply| local_failure(Why::FailedDueToNullMx, reply),
            ));
        }
        Ok(exchangers)
    }

    pub(crate) async fn pool(&self, name: &str) -> Result<EgressPool, PolicyError> {
        match name {
            UNSPECIFIED => Ok(EgressPool::unspecified()),
            _ => self.policy.get_egress_pool(name.to_owned()).await,
        }
    }

    async fn source(&self, name: &str) -> Result<EgressSource, PolicyError> {
        match name {
            UNSPECIFIED => Ok(EgressSource::unspecified()),
            _ => self.policy.get_egress_source(name.to_owned()).await,
        }
    }

    pub(crate) async fn path(&self, domain: &str, source: &str, site: &str) -> Result<EgressPath, PolicyError> {
        match self.interest.has(Event::EgressPathConfig) {
            true => self.policy.get_egress_path_config(domain.to_owned(), source.to_owned(), site.to_owned()).await,
            false => Ok(EgressPath::default()),
        }
    }
}

/// What tells destinations of one site apart: what their domains demand of TLS, and whether DNSSEC vouches for their
/// hosts. A connection serves one ready queue, and so satisfies the demands of every domain in it.
fn identity(exchangers: &MailExchangers, tls: TlsDemand) -> String {
    let of_domain = match (exchangers.sts(), exchangers.is_secure()) {
        (StsMode::None, false) => String::new(),
        (sts, is_secure) => format!(" mta-sts={} secure={is_secure}", sts.as_str()),
    };
    let of_senders = tls.word().map(|word| format!(" {word}")).unwrap_or_default();
    of_domain + &of_senders
}

/// What the name of a site does not say: which hosts they are, where it is folded of several. Other sets of hosts can have the same
/// name, and whoever likes can make one.
fn names_of(exchangers: &MailExchangers) -> String {
    let mut names: Vec<&str> = exchangers.hosts().iter().map(|host| host.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() > 1 { names.join(",") } else { String::new() }
}

/// What the label of an entry of `mx_list` does not say.
fn address_of(entry: &MxListEntry) -> String {
    match entry {
        // Such a name could be two in another list.
        MxListEntry::Named { name, .. } if name.contains(',') => format!("{entry:?}"),
        MxListEntry::Named { ip, port: Some(port), .. } => std::net::SocketAddr::new(*ip, *port).to_string(),
        MxListEntry::Named { ip, port: None, .. } => ip.to_string(),
        MxListEntry::Host { .. } | MxListEntry::Literal { .. } => String::new(),
    }
}

/// True when an attacker on the way cannot have named the hosts: DNSSEC or an MTA-STS policy vouches for them, or no MX
/// record named them (RFC 8689 section 4.2.1).
pub(crate) fn is_name_known(exchangers: &MailExchangers) -> bool {
    !exchangers.is_mx() || exchangers.is_secure() || exchangers.sts() == StsMode::Enforce
}

/// Where mail goes that is not sent to hosts; the site is the domain it is routed by (KumoMTA behaviour). Destinations of
/// one name whose options differ are kept apart.
fn called(name: &QueueName, config: &QueueConfig) -> Result<(Destination, String), String> {
    if matches!(config.protocol, QueueProtocol::Xfer(_)) && xfer::target_of(&name.to_string()).is_none() {
        // Whoever may be handed over must not be found in a queue that could deliver it.
        return Err(format!(
            "KumoMTA internal: queue {name} has the protocol xfer: expected kumo.xfer, or an order, to move messages"
        ));
    }
    let carriage = Carriage::of(&config.protocol, name.clone()).map_err(|e| format!("KumoMTA internal: {e}"))?;
    let carriage = carriage.ok_or("KumoMTA internal: this queue's protocol is not supported yet")?;
    let destination = Destination::new(&format!("{:?}", config.protocol), Arc::new(carriage));
    Ok((destination, name.effective_domain().to_owned()))
}

/// The configuration of queues of messages to another node; policy is not asked (KumoMTA behaviour).
fn of_xfer(target: &str) -> QueueConfig {
    QueueConfig {
        protocol: QueueProtocol::Xfer(XferProtocol { target: target.to_owned() }),
        retry_interval: XFER_RETRY_MIN.into(),
        max_retry_interval: Some(XFER_RETRY_MAX.into()),
        max_age: XFER_AGE_MAX.into(),
        ..QueueConfig::default()
    }
}

/// The configuration of the queues of what was accepted and is to become messages; policy is not asked (KumoMTA behaviour).
fn of_requests(protocol: QueueProtocol) -> QueueConfig {
    QueueConfig {
        protocol,
        retry_interval: XFER_RETRY_MIN.into(),
        max_retry_interval: Some(XFER_RETRY_MAX.into()),
        ..QueueConfig::default()
    }
}

fn listed(entries: &[MxListEntry]) -> Result<MailExchangers, String> {
    let convert = |entry: &MxListEntry| match entry {
        MxListEntry::Named { name, ip, port: None } => route::MxListEntry::with_address(name, &ip.to_string()),
        MxListEntry::Named { name, ip, port: Some(port) } => {
            route::MxListEntry::with_address(name, &std::net::SocketAddr::new(*ip, *port).to_string())
        }
        other => route::MxListEntry::parse(&other.to_string()),
    };
    let list = entries.iter().map(convert).collect::<Result<Vec<_>, _>>();
    let list = list.map_err(|e| format!("KumoMTA internal: {e}"))?;
    let domain = RoutingDomain::parse("mx-list.invalid").map_err(|e| format!("KumoMTA internal: {e}"))?;
    MailExchangers::from_mx_list(&domain, &list).map_err(|e| format!("KumoMTA internal: {e}"))
}

/// Our own wire form of a reply that routing made.
pub(crate) fn wire_reply(local: route::LocalReply) -> Reply {
    let (class, subject, detail) = local.enhanced;
    Reply::enhanced(local.code, EnhancedCode::new(class, subject, detail), local.text)
}

fn local_failure(why: Why, reply: route::LocalReply) -> RouteFailure {
    RouteFailure { why, reply: wire_reply(reply), hold_for: HOLD }
}

/// For good, unless a policy may be there that cannot be had now.
fn unknown_names(domain: &str, fault: Option<StsFault>) -> RouteFailure {
    let text = format!(
        "KumoMTA internal: REQUIRETLS: neither DNSSEC nor an MTA-STS policy in enforce mode vouches for the MX hosts of {domain}"
    );
    let (code, enhanced, text) = match fault {
        None => (550, EnhancedCode::new(5, 7, 30), text),
        Some(_) => {
            (451, EnhancedCode::new(4, 7, 5), format!("{text}; whether there is such a policy cannot be found out now"))
        }
    };
    failure(Why::FailedToInsertIntoReadyQueue, code, enhanced, text)
}

fn failure(why: Why, code: u16, enhanced: EnhancedCode, text: String) -> RouteFailure {
    RouteFailure { why, reply: Reply::enhanced(code, enhanced, text), hold_for: HOLD }
}

fn unexplained() -> RouteFailure {
    let text = "KumoMTA internal: finding the route of this queue failed".to_owned();
    failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 3, 0), text)
}

fn policy_failure(error: &PolicyError) -> RouteFailure {
    tracing::error!("{error}");
    let text = "KumoMTA internal: policy failed while this queue was being configured";
    failure(Why::FailedToInsertIntoReadyQueue, 451, EnhancedCode::new(4, 4, 4), text.to_owned())
}

/// How long a queue without route rests before it is asked about again (KumoMTA: 60 s).
const HOLD: Duration = Duration::from_secs(60);
/// Between attempts to transfer a message (KumoMTA behaviour), doubled up to the next.
const XFER_RETRY_MIN: Duration = Duration::from_secs(10);
const XFER_RETRY_MAX: Duration = Duration::from_secs(60);
/// Age at which a message that cannot be transferred ends. Its own queue may allow it less or more: it counts again from
/// where it arrives, or comes back to.
const XFER_AGE_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Shortest time a route is used, whatever a `ttl` says: each message would ask for it again.
const FRESH_MIN: Duration = Duration::from_secs(1);
/// Longest time a route is used without asking again.
const FRESH_MAX: Duration = Duration::from_secs(60);
