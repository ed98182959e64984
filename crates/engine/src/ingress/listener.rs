//! An ESMTP listener: accepts connections and gives each a session task.
//!
//! What a session runs by is computed once per listener, or per connection when the listener
//! has `peer` or `via` blocks; a policy that is read again may change it for sessions to come. Above `max_connections`, and while memory or a disk is short, a client hears
//! 421 and is closed.

use crate::engine::Engine;
use crate::ingress::accept::Refusal;
use crate::ingress::listener_counts::ListenerCounts;
use crate::ingress::session::{self, Ends};
use arc_swap::ArcSwap;
use config::{EsmtpListener, HostPort, ListenerParams};
use net::Stream;
use net::identity::{Identities, Identity};
use net::proxied::read_header;
use net::tls::TlsError;
use policy::{ConnMeta, Event, Interest, PolicyError};
use smtp_server::Settings;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use telemetry::metrics::IntGauge;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// A listener ready to serve.
pub struct EsmtpService {
    engine: Engine,
    current: Arc<ArcSwap<Current>>,
    sessions: Arc<AtomicUsize>,
}

/// A listener's options as they stand; those of a policy that was read again take their place for sessions to come.
pub(crate) struct Current {
    options: EsmtpListener,
    base: Arc<Profile>,
}

/// A listener, as the engine remembers it.
pub(crate) struct Listening {
    pub at: HostPort,
    sessions_max: usize,
    current: Arc<ArcSwap<Current>>,
}

impl Listening {
    /// Options to take the place of its own. More connections than at the start are not had: open files are counted then.
    pub fn prepare(
        &self,
        engine: &Engine,
        mut options: EsmtpListener,
        interest: Interest,
    ) -> Result<(Arc<ArcSwap<Current>>, Current), ServiceError> {
        options.max_connections = options.max_connections.min(self.sessions_max);
        let base = Arc::new(profile(engine, options.params.clone(), interest)?);
        Ok((self.current.clone(), Current { options, base }))
    }
}

/// Why a listener cannot serve.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// Its certificate and key cannot be had or used.
    #[error("start_esmtp_listener: {0}")]
    Tls(#[from] TlsError),
}

/// What one session runs by.
pub(crate) struct Profile {
    pub params: ListenerParams,
    pub settings: Arc<Settings>,
    pub hostname: String,
    pub tls: Identity,
    /// Of sessions whose options name others.
    identities: Arc<Identities>,
}

/// Counts a session while it lives, also when its task panics.
pub(crate) struct SessionSlot {
    count: Arc<AtomicUsize>,
    gauge: IntGauge,
    /// What its listener counts.
    pub counts: Arc<ListenerCounts>,
}

impl SessionSlot {
    fn take(count: Arc<AtomicUsize>, gauge: IntGauge, counts: Arc<ListenerCounts>) -> SessionSlot {
        gauge.inc();
        SessionSlot { count, gauge, counts }
    }
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }
}

impl EsmtpService {
    /// Checks what can be checked before the first client comes.
    ///
    /// # Errors
    /// Its certificate and key cannot be had or used.
    pub fn new(engine: Engine, options: EsmtpListener, interest: Interest) -> Result<EsmtpService, ServiceError> {
        let base = Arc::new(profile(&engine, options.params.clone(), interest)?);
        let current = Arc::new(ArcSwap::from_pointee(Current { options, base }));
        Ok(EsmtpService { engine, current, sessions: Arc::default() })
    }

    /// From now on its options change with the policy, until it is closed.
    pub fn register(&self) {
        let EsmtpListener { listen, max_connections, .. } = &self.current.load().options;
        let (at, sessions_max, current) = (listen.clone(), *max_connections, self.current.clone());
        self.listening().push(Listening { at, sessions_max, current });
    }

    fn listening(&self) -> MutexGuard<'_, Vec<Listening>> {
        self.engine.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts clients until it is `closed`, or draining begins. Sessions go on.
    pub async fn serve(self, listener: TcpListener, closed: impl Future<Output = ()>) {
        let mut closed = pin!(closed);
        let counts = Arc::new(ListenerCounts::at(&self.engine.metrics, listener.local_addr().ok()));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.engine.stop.requested() => return,
                () = &mut closed => return self.listening().retain(|other| !Arc::ptr_eq(&other.current, &self.current)),
            };
            match accepted {
                Ok((tcp, peer)) => self.start_session(tcp, peer, &counts),
                Err(error) => {
                    // Out of file descriptors, usually: wait for sessions to end.
                    tracing::warn!("accept: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start_session(&self, tcp: TcpStream, peer: SocketAddr, counts: &Arc<ListenerCounts>) {
        let metrics = &self.engine.metrics;
        metrics.tallies.inbound.fetch_add(1, Ordering::Relaxed);
        let open = self.sessions.fetch_add(1, Ordering::Relaxed);
        let open_everywhere = usize::try_from(metrics.open_sessions.get()).unwrap_or_default();
        let slot = SessionSlot::take(self.sessions.clone(), metrics.open_sessions.clone(), counts.clone());
        let engine = self.engine.clone();
        let current = self.current.load();
        let refusal = match open >= current.options.max_connections {
            true => Some(current.base.settings.too_many_sessions()),
            // A 421 is all that can be said in place of a banner; other refusals are for MAIL.
            false => current.base.settings.refusal(engine.pressure.admission(), 0).filter(|reply| reply.code == 421),
        };
        if let Some(reply) = refusal {
            counts.denied();
            // A client that expects TLS reads nothing else, and a handshake is more than there is room for.
            if current.base.params.implicit_tls {
                return;
            }
            self.engine.sessions.spawn(async move { refuse(Stream::Plain(tcp), &reply, slot).await });
            return;
        }
        let Ok(local) = tcp.local_addr() else { return };
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY for {peer}: {error}");
        }
        let ends = Ends { peer, local, behind: None };
        let current = self.current.load_full();
        match self.engine.threads.for_session(open_everywhere, tcp) {
            Ok((runtime, tcp)) => self.engine.sessions.spawn_on(runtime, session(engine, current, tcp, ends, slot)),
            Err(error) => tracing::warn!("{peer}: its socket cannot be watched: {error}"),
        }
    }
}

impl Current {
    /// What a session between these runs by, but for what policy says of it.
    pub fn profile_for(
        &self,
        engine: &Engine,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Arc<Profile>, ServiceError> {
        if self.options.peer.is_empty() && self.options.via.is_empty() {
            return Ok(self.base.clone());
        }
        let params = self.options.effective(peer.ip(), local.ip());
        if params == self.base.params {
            return Ok(self.base.clone());
        }
        self.base.with(engine, params)
    }
}

impl Profile {
    /// The same with other options.
    fn with(&self, engine: &Engine, params: ListenerParams) -> Result<Arc<Profile>, ServiceError> {
        let identity = |params: &ListenerParams| {
            [&params.tls_certificate, &params.tls_private_key, &params.tls_required_client_ca].map(Clone::clone)
        };
        if identity(&params) == identity(&self.params) {
            return Ok(Arc::new(with_identity(
                engine,
                params,
                self.tls.clone(),
                &self.identities,
                engine.interest.now(),
            )));
        }
        profile_among(engine, params, &self.identities, engine.interest.now()).map(Arc::new)
    }

    /// The same, where policy wants something else for this session (`smtp_server_get_dynamic_parameters`).
    pub async fn by_policy(
        self: Arc<Self>,
        engine: &Engine,
        ends: Ends,
        conn: &ConnMeta,
    ) -> Result<Arc<Profile>, Refusal> {
        if !engine.interest.has(Event::DynamicParameters) {
            return Ok(self);
        }
        let answer = engine.policy.smtp_server_get_dynamic_parameters(ends.local, conn.clone()).await;
        let Some(overlay) = answer.map_err(|error| engine.refuse(&self, &error))? else { return Ok(self) };
        let mut params = self.params.clone();
        params.apply(&overlay, ends.peer.ip(), ends.local.ip());
        self.with(engine, params).map_err(|error| {
            let (event, text) = (Event::DynamicParameters.name(), error.to_string());
            engine.refuse(&self, &PolicyError::Script { event, text })
        })
    }
}

/// One client, from the first octet to the last.
async fn session(engine: Engine, current: Arc<Current>, mut tcp: TcpStream, mut ends: Ends, slot: SessionSlot) {
    let profile = match current.profile_for(&engine, ends.peer, ends.local) {
        Ok(profile) if profile.params.require_proxy_protocol => {
            let Some(named) = engine.stop.unless_requested(behind_proxy(&mut tcp, ends)).await else { return };
            match named {
                Ok(named) => ends = named,
                Err(why) => return tracing::warn!("{}: {why}", ends.peer),
            }
            current.profile_for(&engine, ends.peer, ends.local)
        }
        other => other,
    };
    match profile {
        Ok(profile) => session::run(engine, (current, profile), Stream::Plain(tcp), ends, slot).await,
        Err(error) => {
            tracing::error!("{error}");
            if current.base.params.implicit_tls {
                return;
            }
            let reply = current.base.settings.technical_difficulties();
            refuse(Stream::Plain(tcp), &reply, slot).await;
        }
    }
}

/// For whom the proxy at the other end says that it connects. What a listener does for its peer is for that client.
async fn behind_proxy(tcp: &mut TcpStream, ends: Ends) -> Result<Ends, String> {
    match tokio::time::timeout(PROXY_PATIENCE, read_header(tcp)).await {
        Ok(Ok(Some((peer, local)))) => Ok(Ends { peer, local, behind: Some((ends.peer, ends.local)) }),
        Ok(Ok(None)) => Ok(ends),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no header of the PROXY protocol within {PROXY_PATIENCE:?}")),
    }
}

/// Tells a client with whom there is to be no session.
pub(crate) async fn refuse(mut stream: Stream, reply: &smtp_wire::Reply, _slot: SessionSlot) {
    let mut line = Vec::new();
    reply.write_to(&mut line);
    // The client is refused either way; whether it hears why is its own affair.
    let _ = tokio::time::timeout(ACCEPT_PAUSE, stream.write_all(&line)).await;
}

fn profile(engine: &Engine, params: ListenerParams, interest: Interest) -> Result<Profile, ServiceError> {
    profile_among(engine, params, &Arc::default(), interest)
}

fn profile_among(
    engine: &Engine,
    params: ListenerParams,
    identities: &Arc<Identities>,
    interest: Interest,
) -> Result<Profile, ServiceError> {
    let hostname = params.hostname.clone().unwrap_or_else(|| engine.settings.hostname.clone());
    let identity = (params.tls_certificate.as_ref(), params.tls_private_key.as_ref());
    let tls = identities.get(identity, params.tls_required_client_ca.as_ref(), &hostname)?;
    Ok(with_identity(engine, params, tls, identities, interest))
}

fn with_identity(
    engine: &Engine,
    params: ListenerParams,
    tls: Identity,
    identities: &Arc<Identities>,
    interest: Interest,
) -> Profile {
    let hostname = params.hostname.clone().unwrap_or_else(|| engine.settings.hostname.clone());
    let settings = Arc::new(settings(&params, &hostname, interest));
    Profile { params, settings, hostname, tls, identities: identities.clone() }
}

fn settings(params: &ListenerParams, hostname: &str, interest: Interest) -> Settings {
    Settings {
        hostname: hostname.to_owned(),
        banner: params.banner.clone(),
        interest: smtp_server::Interest {
            connection_accepted: interest.has(Event::ConnectionAccepted),
            ehlo: interest.has(Event::Ehlo),
            auth: interest.has(Event::AuthPlain),
            mail_from: interest.has(Event::MailFrom),
            rcpt_to: true,
        },
        max_message_size: usize::try_from(params.max_message_size).unwrap_or(usize::MAX),
        max_recipients_per_message: params.max_recipients_per_message,
        max_messages_per_connection: params.max_messages_per_connection,
        line_length_hard_limit: params.line_length_hard_limit,
        invalid_line_endings: match params.invalid_line_endings {
            config::InvalidLineEndings::Deny => smtp_wire::data::InvalidLineEndings::Deny,
            config::InvalidLineEndings::Allow => smtp_wire::data::InvalidLineEndings::Allow,
            config::InvalidLineEndings::Fix => smtp_wire::data::InvalidLineEndings::Fix,
        },
        client_timeout: params.client_timeout.get(),
        data_processing_timeout: params.data_processing_timeout.get(),
        tls_available: true,
        allow_xclient: params.allow_xclient,
        replies_apart: interest.has(Event::RewriteResponse),
        ..Settings::default()
    }
}

/// How long a proxy may take to say for whom it connects.
const PROXY_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);
/// Pause after a failed accept, and the patience for a refused client.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
