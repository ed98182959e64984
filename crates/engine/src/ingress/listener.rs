//! An ESMTP listener: accepts connections and gives each a session task.
//!
//! What a session runs by is computed once per listener, or per connection when the listener
//! has `peer` or `via` blocks. Above `max_connections`, and while memory or a disk is short, a client hears
//! 421 and is closed.

use crate::engine::Engine;
use crate::ingress::session;
use config::{EsmtpListener, KeySource, ListenerParams};
use net::Stream;
use net::tls::{TlsError, acceptor_from_pem, self_signed_acceptor};
use policy::{Event, Interest};
use smtp_server::Settings;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use telemetry::metrics::IntGauge;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A listener ready to serve.
pub struct EsmtpService {
    engine: Engine,
    options: EsmtpListener,
    base: Arc<Profile>,
    sessions: Arc<AtomicUsize>,
}

/// Why a listener cannot serve.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// A certificate or key that cannot be had.
    #[error("start_esmtp_listener: {field}: {cause}")]
    Key {
        /// `tls_certificate` or `tls_private_key`.
        field: &'static str,
        /// What went wrong.
        cause: String,
    },
    /// One of certificate and key without the other.
    #[error("start_esmtp_listener: tls_certificate and tls_private_key: expected both or neither")]
    HalfTls,
    /// TLS refuses the certificate or key.
    #[error("start_esmtp_listener: {0}")]
    Tls(#[from] TlsError),
}

/// What one session runs by.
pub(crate) struct Profile {
    pub params: ListenerParams,
    pub settings: Arc<Settings>,
    pub hostname: String,
    pub acceptor: TlsAcceptor,
}

/// Counts a session while it lives, also when its task panics.
pub(crate) struct SessionSlot {
    count: Arc<AtomicUsize>,
    gauge: IntGauge,
}

impl SessionSlot {
    fn take(count: Arc<AtomicUsize>, gauge: IntGauge) -> SessionSlot {
        gauge.inc();
        SessionSlot { count, gauge }
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
    pub fn new(engine: Engine, options: EsmtpListener) -> Result<EsmtpService, ServiceError> {
        let base = Arc::new(profile(&engine, options.params.clone())?);
        Ok(EsmtpService { engine, options, base, sessions: Arc::default() })
    }

    /// Accepts clients until draining begins.
    pub async fn serve(self, listener: TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.engine.stop.requested() => return,
            };
            match accepted {
                Ok((tcp, peer)) => self.start_session(tcp, peer),
                Err(error) => {
                    // Out of file descriptors, usually: wait for sessions to end.
                    tracing::warn!("accept: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start_session(&self, tcp: TcpStream, peer: SocketAddr) {
        let metrics = &self.engine.metrics;
        metrics.total_connection_count.with_label_values(&["esmtp_listener"]).inc();
        let open = self.sessions.fetch_add(1, Ordering::Relaxed);
        let open_sessions = metrics.connection_count.with_label_values(&["esmtp_listener"]);
        let slot = SessionSlot::take(self.sessions.clone(), open_sessions);
        let engine = self.engine.clone();
        let refusal = match open >= self.options.max_connections {
            true => Some(self.base.settings.too_many_sessions()),
            // A 421 is all that can be said in place of a banner; other refusals are for MAIL.
            false => self.base.settings.refusal(engine.pressure.admission(), 0).filter(|reply| reply.code == 421),
        };
        if let Some(reply) = refusal {
            metrics.total_connections_denied.with_label_values(&["esmtp_listener"]).inc();
            self.engine.sessions.spawn(async move { refuse(tcp, &reply, slot).await });
            return;
        }
        let Ok(local) = tcp.local_addr() else { return };
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY for {peer}: {error}");
        }
        match self.profile_for(peer, local) {
            Ok(profile) => {
                engine.clone().sessions.spawn(session::run(engine, profile, Stream::Plain(tcp), peer, local, slot))
            }
            Err(error) => tracing::error!("{error}"),
        }
    }

    fn profile_for(&self, peer: SocketAddr, local: SocketAddr) -> Result<Arc<Profile>, ServiceError> {
        if self.options.peer.is_empty() && self.options.via.is_empty() {
            return Ok(self.base.clone());
        }
        let params = self.options.effective(peer.ip(), local.ip());
        if params == self.base.params {
            return Ok(self.base.clone());
        }
        if params.tls_certificate == self.base.params.tls_certificate
            && params.tls_private_key == self.base.params.tls_private_key
        {
            let acceptor = self.base.acceptor.clone();
            return Ok(Arc::new(with_acceptor(&self.engine, params, acceptor)));
        }
        profile(&self.engine, params).map(Arc::new)
    }
}

async fn refuse(mut tcp: TcpStream, reply: &smtp_wire::Reply, _slot: SessionSlot) {
    let mut line = Vec::new();
    reply.write_to(&mut line);
    // The client is refused either way; whether it hears why is its own affair.
    let _ = tokio::time::timeout(ACCEPT_PAUSE, tcp.write_all(&line)).await;
}

fn profile(engine: &Engine, params: ListenerParams) -> Result<Profile, ServiceError> {
    let hostname = params.hostname.clone().unwrap_or_else(|| engine.settings.hostname.clone());
    let acceptor = match (&params.tls_certificate, &params.tls_private_key) {
        (None, None) => self_signed_acceptor(&hostname)?,
        (Some(certificate), Some(key)) => {
            acceptor_from_pem(&load("tls_certificate", certificate)?, &load("tls_private_key", key)?)?
        }
        _ => return Err(ServiceError::HalfTls),
    };
    Ok(with_acceptor(engine, params, acceptor))
}

fn with_acceptor(engine: &Engine, params: ListenerParams, acceptor: TlsAcceptor) -> Profile {
    let hostname = params.hostname.clone().unwrap_or_else(|| engine.settings.hostname.clone());
    let settings = Arc::new(settings(&params, &hostname, engine.interest));
    Profile { params, settings, hostname, acceptor }
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
        ..Settings::default()
    }
}

fn load(field: &'static str, source: &KeySource) -> Result<Vec<u8>, ServiceError> {
    match source {
        KeySource::Data(bytes) => Ok(bytes.clone()),
        KeySource::File(path) => {
            std::fs::read(path).map_err(|e| ServiceError::Key { field, cause: format!("cannot read `{path}`: {e}") })
        }
        other => {
            let cause = format!("{other:?} is not supported yet: expected a file name or {{key_data = ...}}");
            Err(ServiceError::Key { field, cause })
        }
    }
}

/// Pause after a failed accept, and the patience for a refused client.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);
