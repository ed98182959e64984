//! iprev (RFC 8601 section 3): does the client's address have a name that leads back to it?
//!
//! In: a resolver and an address. Out: one result with the property `smtp.remote-ip`. Cannot fail: what goes wrong is a result
//! too. At most [`IPREV_NAMES_MAX`] names are looked at.

use crate::questions::{addresses_like, names_of};
use crate::results::{add_prop, result};
use crate::text::{has_name_shape, shown};
use mimepart::AuthenticationResult;
use route::Resolver;
use std::net::IpAddr;

/// Asks for the names of `ip`, then for the addresses of each until one is `ip`.
pub async fn iprev(resolver: &dyn Resolver, ip: IpAddr) -> AuthenticationResult {
    let ip = ip.to_canonical();
    let (word, reason) = judged(resolver, ip).await;
    let mut made = result("iprev", word, Some(reason));
    add_prop(&mut made, "smtp.remote-ip", &ip.to_string());
    made
}

async fn judged(resolver: &dyn Resolver, ip: IpAddr) -> (&'static str, String) {
    let names = match names_of(resolver, ip).await {
        Ok(names) if names.is_empty() => return ("permerror", format!("{ip} has no name in DNS")),
        Ok(names) => names,
        Err(error) => return ("temperror", format!("the names of {ip}: {}", shown(&error.to_string()))),
    };
    let mut trouble = None;
    for name in names.iter().take(IPREV_NAMES_MAX).filter(|name| has_name_shape(name)) {
        match addresses_like(resolver, name, ip).await {
            Ok(found) if found.contains(&ip) => return ("pass", format!("{} leads back", shown(name))),
            Ok(_) => {}
            Err(error) => trouble = Some(format!("{}: {}", shown(name), shown(&error.to_string()))),
        }
    }
    match trouble {
        Some(trouble) => ("temperror", trouble),
        None => ("fail", format!("no name of {ip} leads back to it")),
    }
}

/// Most names of an address looked at.
pub const IPREV_NAMES_MAX: usize = 10;
