//! Whether the certificates and keys of listeners can be used, for `--validate`.
//!
//! In: what is to be started. Out: nothing, or the listener and what is wrong with its files. A block of `peer` or `via` is looked at
//! as a client in it would be served. Where neither certificate nor key is given one is made up at the start, which cannot fail.

use anyhow::Context;
use config::{KeySource, ListenerParams};
use net::identity::Identity;
use policy::Startup;
use std::net::{IpAddr, Ipv4Addr};

/// Reads them all.
pub fn check(startup: &Startup) -> anyhow::Result<()> {
    for listener in &startup.esmtp_listeners {
        let of = |place: &str| format!("kumo.start_esmtp_listener {}{place}", listener.listen);
        of_params(&listener.params).with_context(|| of(""))?;
        for (block, _) in listener.peer.iter() {
            let place = format!(": peer {}", config::show_cidr(block));
            of_params(&listener.effective(block.addr(), NOBODY)).with_context(|| of(&place))?;
        }
        for (block, _) in listener.via.iter() {
            let place = format!(": via {}", config::show_cidr(block));
            of_params(&listener.effective(NOBODY, block.addr())).with_context(|| of(&place))?;
        }
    }
    for listener in startup.http_listeners.iter().filter(|listener| listener.use_tls) {
        let pair = (listener.tls_certificate.as_ref(), listener.tls_private_key.as_ref());
        usable(pair, None).with_context(|| format!("kumo.start_http_listener {}", listener.listen))?;
    }
    Ok(())
}

fn of_params(params: &ListenerParams) -> anyhow::Result<()> {
    let pair = (params.tls_certificate.as_ref(), params.tls_private_key.as_ref());
    usable(pair, params.tls_required_client_ca.as_ref())
}

fn usable(pair: (Option<&KeySource>, Option<&KeySource>), client_ca: Option<&KeySource>) -> anyhow::Result<()> {
    if pair.0.is_some() || pair.1.is_some() || client_ca.is_some() {
        Identity::new(pair, client_ca, "localhost")?;
    }
    Ok(())
}

/// An address that is in hardly any block.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
