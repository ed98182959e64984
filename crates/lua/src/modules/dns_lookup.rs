//! `kumo.dns.lookup_*` and `rbl_lookup`: questions to DNS that a handler waits for.
//!
//! In: names and addresses as text, and which resolver is asked. Out: plain values. Fails when there is no usable answer
//! and when no resolver has that name. At the top level and in `init` the thread waits.
//! The first question makes the policy call handlers so that they can wait; until then one holds its thread. The resolvers
//! remember answers and limit questions at a time; every question ends within [`LOOKUP_MAX`].

use crate::api::Proof::Test;
use crate::api::{Function, function};
use crate::modules::dns::reversed;
use crate::names;
use crate::waiting;
use config::IpLookupStrategy;
use mlua::{IntoLua, Lua, LuaSerdeExt, Table, Value};
use net::dns::MxCache;
use route::{DnsError, IpStrategy, RoutingDomain};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        waits
        "kumo.dns",
        "lookup_mx",
        "(domain, resolver or nil) -> table",
        "Where mail for a domain goes: `domain_name`, `hosts`, `site_name`, `by_pref`, `is_domain_literal`, `is_secure`, `is_mx`, `mta_sts`. A domain without MX is its own host; an error when nothing can be found out.",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        lookup_mx
    ),
    function!(
        waits
        "kumo.dns",
        "lookup_addr",
        "(name, resolver or nil, ip_lookup_strategy or nil) -> list",
        "The addresses of a host; an error when it has none.",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        lookup_addr
    ),
    function!(
        waits
        "kumo.dns",
        "lookup_txt",
        "(domain, resolver or nil) -> list",
        "The TXT records of a domain; an error when it does not exist.",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        lookup_txt
    ),
    function!(
        waits
        "kumo.dns",
        "lookup_ptr",
        "(ip, resolver or nil) -> list",
        "The names of an address, with a dot at the end; empty when it has none.",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        lookup_ptr
    ),
    function!(
        waits
        "kumo.dns",
        "rbl_lookup",
        "(ip, base_domain, resolver or nil) -> ip or nil, text or nil",
        "What a DNS block list says of an address (RFC 5782).",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        rbl_lookup
    ),
];

async fn lookup_mx(lua: Lua, (domain, resolver): (String, Option<String>)) -> mlua::Result<Table> {
    let name = "lookup_mx";
    let parsed = RoutingDomain::parse(&domain).map_err(|e| refused(name, &format!("{domain:?}: {e}")))?;
    let names = resolver_of(&lua, name, resolver.as_deref())?;
    let found = wait(&lua, name, async { names.resolve_site(&parsed).await }).await?;
    let found = found.map_err(|e| refused(name, &e.to_string()))?;
    let table = lua.create_table()?;
    let full_name = parsed.fqdn().unwrap_or(domain);
    table.raw_set("domain_name", full_name)?;
    table.raw_set("hosts", found.hosts().iter().map(|host| host.name.clone()).collect::<Vec<_>>())?;
    table.raw_set("site_name", found.site_name())?;
    table.raw_set("by_pref", found.by_pref())?;
    table.raw_set("is_domain_literal", found.is_domain_literal())?;
    table.raw_set("is_secure", found.is_secure() && found.is_mx())?;
    table.raw_set("is_mx", found.is_mx())?;
    table.raw_set("mta_sts", found.sts().as_str())?;
    Ok(table)
}

async fn lookup_addr(
    lua: Lua,
    (host, resolver, strategy): (String, Option<String>, Option<String>),
) -> mlua::Result<Vec<String>> {
    let name = "lookup_addr";
    let strategy = strategy.map(|text| text.into_lua(&lua)).transpose()?.unwrap_or(Value::Nil);
    let strategy = strategy_of(&lua, strategy).map_err(|e| refused(name, &e.to_string()))?;
    let names = resolver_of(&lua, name, resolver.as_deref())?;
    let found = wait(&lua, name, async { names.addresses(&host, strategy).await }).await?;
    let found = found.map_err(|e| refused(name, &format!("{host}: {e}")))?;
    Ok(found.iter().map(IpAddr::to_string).collect())
}

async fn lookup_txt(lua: Lua, (domain, resolver): (String, Option<String>)) -> mlua::Result<Value> {
    let name = "lookup_txt";
    let names = resolver_of(&lua, name, resolver.as_deref())?;
    let texts = match wait(&lua, name, async { names.txt(&domain).await }).await? {
        Ok(answer) => answer.texts,
        Err(DnsError::NoData) => Vec::new(),
        Err(error) => return Err(refused(name, &format!("{domain}: {error}"))),
    };
    let texts = texts.iter().map(|text| lua.create_string(text)).collect::<mlua::Result<Vec<_>>>()?;
    texts.into_lua(&lua)
}

async fn lookup_ptr(lua: Lua, (ip, resolver): (String, Option<String>)) -> mlua::Result<Vec<String>> {
    let name = "lookup_ptr";
    let ip: IpAddr = ip.parse().map_err(|_| refused(name, &format!("{ip:?}: expected an IP address")))?;
    let names = resolver_of(&lua, name, resolver.as_deref())?;
    let zone = if ip.is_ipv4() { "in-addr.arpa" } else { "ip6.arpa" };
    let question = format!("{}.{zone}", reversed(ip));
    match wait(&lua, name, async { names.ptr(&question).await }).await? {
        Ok(hosts) => Ok(hosts),
        // Most addresses have no name; that is an answer.
        Err(DnsError::NoData | DnsError::NxDomain) => Ok(Vec::new()),
        Err(error) => Err(refused(name, &format!("{ip}: {error}"))),
    }
}

/// What a DNS block list says of an address (RFC 5782 section 2.1): the address it answers, and its reason.
async fn rbl_lookup(
    lua: Lua,
    (ip, base, resolver): (String, String, Option<String>),
) -> mlua::Result<(Option<String>, Value)> {
    let name = "rbl_lookup";
    let address = ip.parse().or_else(|_| ip.parse().map(|socket: SocketAddr| socket.ip()));
    let address = address.map_err(|_| refused(name, &format!("{ip:?}: expected an IP address, or one and a port")))?;
    let names = resolver_of(&lua, name, resolver.as_deref())?;
    let question = format!("{}.{base}", reversed(address));
    let ask = async {
        let listed = match names.addresses(&question, IpStrategy::Ipv4Only).await {
            Ok(listed) => listed,
            Err(DnsError::NoData | DnsError::NxDomain) => return Ok(None),
            Err(error) => return Err(error),
        };
        // That there is no reason given, or none to be had now, does not take it from the list.
        let reason = names.txt(&question).await.ok().and_then(|answer| answer.texts.into_iter().next());
        Ok(listed.first().map(|ip| (ip.to_string(), reason)))
    };
    match wait(&lua, name, ask).await? {
        Ok(None) => Ok((None, Value::Nil)),
        Ok(Some((ip, None))) => Ok((Some(ip), Value::Nil)),
        Ok(Some((ip, Some(reason)))) => Ok((Some(ip), Value::String(lua.create_string(reason)?))),
        Err(error) => Err(refused(name, &format!("{question}: {error}"))),
    }
}

fn strategy_of(lua: &Lua, value: Value) -> mlua::Result<IpStrategy> {
    if value.is_nil() {
        return Ok(IpStrategy::default());
    }
    Ok(match lua.from_value::<IpLookupStrategy>(value)? {
        IpLookupStrategy::Ipv4AndIpv6 => IpStrategy::Ipv4AndIpv6,
        IpLookupStrategy::Ipv4Only => IpStrategy::Ipv4Only,
        IpLookupStrategy::Ipv6Only => IpStrategy::Ipv6Only,
        IpLookupStrategy::Ipv6ThenIpv4 => IpStrategy::Ipv6ThenIpv4,
        IpLookupStrategy::Ipv4ThenIpv6 => IpStrategy::Ipv4ThenIpv6,
    })
}

/// Who is asked: the resolver of that name, or that of mail.
fn resolver_of(lua: &Lua, name: &str, resolver: Option<&str>) -> mlua::Result<Arc<MxCache>> {
    names::resolver_of(lua, &format!("kumo.dns.{name}"), resolver)
}

/// The answer to a question, waited for as this handler may.
async fn wait<T: Send>(lua: &Lua, name: &str, question: impl Future<Output = T> + Send) -> mlua::Result<T> {
    waiting::wait(lua, &format!("kumo.dns.{name}"), LOOKUP_MAX, question).await
}

fn refused(name: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("kumo.dns.{name}: {why}"))
}

/// Longest time one call may take, the turn of others before it included.
const LOOKUP_MAX: Duration = Duration::from_secs(60);
