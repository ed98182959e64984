//! The options of a source: from where connections are made.
//!
//! Owns [`EgressSource`], the argument of `kumo.make_egress_source`. Binding and proxies are the net
//! crate's, suspension is the queue's.

use crate::duration::Duration;
use crate::host_port::HostPort;
use crate::key_source::KeySource;
use crate::options::options;
use crate::queue_config::UNSPECIFIED;
use crate::throttle::ThrottleSpec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

options! {
    /// `kumo.make_egress_source`
    pub struct EgressSource check check_source {
        /// The name used in logs, metrics and pools.
        name: String;
        /// Local address to bind; also used to reach a proxy.
        source_address: Option<IpAddr> = None;
        /// The name in EHLO; the path's wins.
        ehlo_domain: Option<String> = None;
        /// Destination port; above every other setting.
        remote_port: Option<u16> = None, min 1;
        /// HAProxy-protocol server to connect through.
        ha_proxy_server: Option<HostPort> = None;
        /// The address that proxy should bind.
        ha_proxy_source_address: Option<IpAddr> = None;
        /// SOCKS5 server to connect through.
        socks5_proxy_server: Option<HostPort> = None;
        /// The address that server should bind.
        socks5_proxy_source_address: Option<IpAddr> = None;
        /// User for the SOCKS5 server (RFC 1929).
        socks5_proxy_username: Option<String> = None;
        /// Its password.
        socks5_proxy_password: Option<KeySource> = None;
        /// Suspend the source when its address cannot be bound (EADDRNOTAVAIL).
        suspend_when_unplumbed: Option<SourceSuspension> = None;
        /// Suspend the source when its proxy fails to connect or bind.
        suspend_when_proxy_unhealthy: Option<SourceSuspension> = None;
        /// How long this definition may be cached.
        ttl: Duration = Duration::from_secs(60);
    }
}

options! {
    /// When a source suspends itself, and for how long
    pub struct SourceSuspension {
        /// At the first failure, or at so many in a period.
        trigger: Trigger = Trigger::Immediate;
        /// How long it stays suspended.
        duration: Duration;
    }
}

/// What brings about an automatic action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// The first event.
    #[default]
    Immediate,
    /// So many events in a period, e.g. `"5/min"`.
    Threshold(ThrottleSpec),
}

impl EgressSource {
    /// Whether a connection of this source may go on by another definition of it: it begins at the same address, by the same proxy.
    pub fn connects_like(&self, other: &EgressSource) -> bool {
        let EgressSource { suspend_when_unplumbed, suspend_when_proxy_unhealthy, ttl, .. } = other.clone();
        EgressSource { suspend_when_unplumbed, suspend_when_proxy_unhealthy, ttl, ..self.clone() } == *other
    }

    /// The source used when a policy names none: kernel-chosen address, no settings.
    pub fn unspecified() -> Self {
        EgressSource { name: UNSPECIFIED.to_owned(), ..Default::default() }
    }
}

fn check_source(source: &EgressSource) -> Result<(), String> {
    if source.name.is_empty() {
        return Err("invalid name \"\": expected the name of the source".to_owned());
    }
    if source.ha_proxy_server.is_some() != source.ha_proxy_source_address.is_some() {
        return Err("ha_proxy_server and ha_proxy_source_address: expected both or neither".to_owned());
    }
    if source.ha_proxy_server.is_some() && source.socks5_proxy_server.is_some() {
        return Err("ha_proxy_server and socks5_proxy_server: expected at most one proxy".to_owned());
    }
    if source.socks5_proxy_username.is_some() != source.socks5_proxy_password.is_some() {
        return Err("socks5_proxy_username and socks5_proxy_password: expected both or neither".to_owned());
    }
    Ok(())
}
