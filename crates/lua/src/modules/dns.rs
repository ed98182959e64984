//! `kumo.dns`: who is asked for names, how patiently, and whether MTA-STS is looked at.
//!
//! Settings hold from the start on and are made at the top level, in `pre_init` or `init`; made in any other event they
//! are an error, since they would change nothing. Functions that look something up are `dns_lookup`'s; `ptr_host` and
//! `reverse_ip` only turn text around.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, Module, function};
use crate::context::Host;
use crate::convert;
use crate::modules::tuning::count;
use crate::modules::{dns_lookup, sender_checks};
use config::{DnsSettings, ResolverForm, Zones};
use mlua::{IntoLua, Lua, Value};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// The module.
pub(crate) const DNS: Module = Module {
    name: "kumo.dns",
    doc: "Who is asked for names, and asking. Settings hold from the start on; the top level and `init` ask as the script has chosen so far.",
    functions: &[FUNCTIONS, dns_lookup::FUNCTIONS, sender_checks::OF_CLIENTS],
    types: &[],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.dns",
        "configure_resolver",
        "{options}",
        "Who is asked for names, at the top level, in `pre_init` or `init`: `{name_servers=, domain=, search=, options=}`, or one of the forms of `define_resolver`.",
        Test("crates/lua/tests/scripts/dns.rs::every_way_to_choose_a_resolver"),
        |lua, form: Value| configure(lua, "configure_resolver", &form)
    ),
    function!(
        "kumo.dns",
        "configure_unbound_resolver",
        "{options}",
        "The same; `options` are `validate`, `trust_anchor_file` and `use_hosts_file`.",
        Test("crates/lua/tests/scripts/dns.rs::every_way_to_choose_a_resolver"),
        |lua, form: Value| configure(lua, "configure_unbound_resolver", &form)
    ),
    function!(
        "kumo.dns",
        "configure_test_resolver",
        "{options}",
        "Answers from zones in the text of the policy: a list of zone files, or `{zones=, servfail=}`.",
        Test("crates/lua/tests/scripts/dns.rs::every_way_to_choose_a_resolver"),
        |lua, form: Value| configure(lua, "configure_test_resolver", &form)
    ),
    function!(
        "kumo.dns",
        "define_resolver",
        "(name, form)",
        "A resolver under a name, for functions that look something up: `{Hickory={...}}`, `{Unbound={...}}`, `{Test=...}`, `{Aggregate={...}}` or `HickorySystemConfig`.",
        Test("testing/e2e/tests/lookups.rs::scripts_hear_what_dns_says"),
        define_resolver
    ),
    function!(
        "kumo.dns",
        "configure_test_mta_sts",
        "{domain = policy}",
        "MTA-STS policies in the text of the policy.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        configure_test_mta_sts
    ),
    function!(
        "kumo.dns",
        "set_mta_sts_enabled",
        "(boolean)",
        "Whether MTA-STS policies are looked at; they are by default.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        set_mta_sts_enabled
    ),
    function!(
        "kumo.dns",
        "set_mta_sts_port",
        "(port)",
        "The port at which MTA-STS policies are fetched; 443 by default.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        set_mta_sts_port
    ),
    function!(
        "kumo.dns",
        "set_mx_concurrency_limit",
        "(n)",
        "How many look-ups of mail exchangers go on at once; 128 by default.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        set_mx_concurrency_limit
    ),
    function!(
        "kumo.dns",
        "set_mx_timeout",
        "(duration)",
        "How long a look-up may take; 5 s by default.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        set_mx_timeout
    ),
    function!(
        "kumo.dns",
        "set_mx_negative_cache_ttl",
        "(duration)",
        "How long a failure is remembered; 5 minutes by default.",
        Test("crates/lua/tests/scripts/dns.rs::settings_made_before_or_in_init_are_what_is_started_with"),
        set_mx_negative_cache_ttl
    ),
    function!(
        "kumo.dns",
        "ptr_host",
        "(ip) -> string",
        "The name under which an address is looked up.",
        Example(
            "assert(kumo.dns.ptr_host('192.0.2.1') == '1.2.0.192.in-addr.arpa' and not pcall(kumo.dns.ptr_host, 'x'))"
        ),
        ptr_host
    ),
    function!(
        "kumo.dns",
        "reverse_ip",
        "(ip) -> string",
        "The labels of an address, the last first.",
        Example("assert(kumo.dns.reverse_ip('192.0.2.1') == '1.2.0.192')"),
        reverse_ip
    ),
    function!(
        "kumo.dns",
        "load_resolv_conf",
        "(path = '/etc/resolv.conf') -> table",
        "A table for `configure_resolver` from a file of the system.",
        Test("crates/lua/tests/scripts/dns.rs::the_system_s_resolvers_can_be_read_and_changed"),
        load_resolv_conf
    ),
];

fn configure(lua: &Lua, name: &'static str, form: &Value) -> mlua::Result<()> {
    let form = match name {
        "configure_unbound_resolver" => {
            ResolverForm::Unbound(convert::options("kumo.dns.configure_unbound_resolver", form)?)
        }
        "configure_test_resolver" => {
            ResolverForm::Test(convert::options::<Zones>("kumo.dns.configure_test_resolver", form)?)
        }
        _ => {
            let json = convert::to_json(lua, form).map_err(|e| refused(name, &e.to_string()))?;
            ResolverForm::read("kumo.dns.configure_resolver", json).map_err(mlua::Error::external)?
        }
    };
    set(lua, name, |dns| dns.resolver = Some(form))
}

/// Named resolvers serve functions that look something up. They are made when the program begins to serve.
fn define_resolver(lua: &Lua, (name, form): (String, Value)) -> mlua::Result<()> {
    let json = convert::to_json(lua, &form).map_err(|e| refused("define_resolver", &e.to_string()))?;
    let form = ResolverForm::read("kumo.dns.define_resolver", json).map_err(mlua::Error::external)?;
    let host = lua.app_data_ref::<Host>();
    let is_new = host.is_some_and(|host| !host.dns.named.contains_key(&name) && host.dns.named.len() >= RESOLVERS_MAX);
    if is_new {
        return Err(refused("define_resolver", &format!("`{name}` is one too many: expected at most {RESOLVERS_MAX}")));
    }
    set(lua, "define_resolver", |dns| _ = dns.named.insert(name, form))
}

/// A table that may be changed and given to `configure_resolver`.
fn load_resolv_conf(lua: &Lua, path: Option<String>) -> mlua::Result<Value> {
    let path = path.unwrap_or_else(|| RESOLV_CONF.to_owned());
    let options = net::dns::resolv_conf_options(Path::new(&path));
    let options = options.map_err(|e| refused("load_resolv_conf", &e.to_string()))?;
    let json = serde_json::to_value(options).map_err(|e| refused("load_resolv_conf", &e.to_string()))?;
    convert::to_lua(lua, &json)
}

fn configure_test_mta_sts(lua: &Lua, policies: BTreeMap<String, String>) -> mlua::Result<()> {
    set(lua, "configure_test_mta_sts", |dns| dns.test_mta_sts = policies)
}

fn set_mta_sts_enabled(lua: &Lua, enabled: bool) -> mlua::Result<()> {
    set(lua, "set_mta_sts_enabled", |dns| dns.is_mta_sts_enabled = enabled)
}

fn set_mta_sts_port(lua: &Lua, port: Value) -> mlua::Result<()> {
    let port = count(&port, 1, i64::from(u16::MAX)).map_err(|e| refused("set_mta_sts_port", &e))?;
    set(lua, "set_mta_sts_port", |dns| dns.mta_sts_port = u16::try_from(port).unwrap_or(u16::MAX))
}

fn set_mx_concurrency_limit(lua: &Lua, limit: Value) -> mlua::Result<()> {
    let limit = count(&limit, 1, i64::from(u32::MAX)).map_err(|e| refused("set_mx_concurrency_limit", &e))?;
    set(lua, "set_mx_concurrency_limit", |dns| dns.mx_concurrency_limit = usize::try_from(limit).unwrap_or(usize::MAX))
}

fn set_mx_timeout(lua: &Lua, timeout: Value) -> mlua::Result<()> {
    let timeout: config::Duration = convert::options("kumo.dns.set_mx_timeout", &timeout)?;
    if timeout.get().is_zero() {
        return Err(refused("set_mx_timeout", "0s: expected more than no time at all"));
    }
    set(lua, "set_mx_timeout", |dns| dns.mx_timeout = timeout)
}

fn set_mx_negative_cache_ttl(lua: &Lua, ttl: Value) -> mlua::Result<()> {
    let ttl = convert::options("kumo.dns.set_mx_negative_cache_ttl", &ttl)?;
    set(lua, "set_mx_negative_cache_ttl", |dns| dns.mx_negative_cache_ttl = ttl)
}

fn set(lua: &Lua, name: &'static str, change: impl FnOnce(&mut DnsSettings)) -> mlua::Result<()> {
    let mut host = lua.app_data_mut::<Host>().ok_or_else(|| refused(name, "this state belongs to no policy"))?;
    if host.startup.is_none() && host.current_event.is_some() {
        return Err(refused(name, "can only be called before or in the init event"));
    }
    change(&mut host.dns);
    Ok(())
}

/// `192.0.2.1` as `1.2.0.192.in-addr.arpa`.
fn ptr_host(lua: &Lua, ip: String) -> mlua::Result<Value> {
    let ip = address("ptr_host", &ip)?;
    let zone = if ip.is_ipv4() { "in-addr.arpa" } else { "ip6.arpa" };
    format!("{}.{zone}", reversed(ip)).into_lua(lua)
}

/// `192.0.2.1` as `1.2.0.192`.
fn reverse_ip(lua: &Lua, ip: String) -> mlua::Result<Value> {
    reversed(address("reverse_ip", &ip)?).into_lua(lua)
}

fn address(name: &str, text: &str) -> mlua::Result<IpAddr> {
    text.parse().map_err(|_| refused(name, &format!("{text:?}: expected an IP address")))
}

pub(crate) fn reversed(ip: IpAddr) -> String {
    let labels: Vec<String> = match ip {
        IpAddr::V4(v4) => v4.octets().iter().rev().map(u8::to_string).collect(),
        IpAddr::V6(v6) => {
            let nibbles = v6.octets().into_iter().rev().flat_map(|octet| [octet & 0xf, octet >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect()
        }
    };
    labels.join(".")
}

fn refused(name: &str, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("kumo.dns.{name}: {why}"))
}

/// Where the system says whom to ask.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Resolvers a policy may define: each has a memory of its own.
const RESOLVERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_turned_around() {
        assert_eq!(reversed("192.0.2.1".parse().unwrap()), "1.2.0.192");
        let v6 = reversed("2001:db8::1".parse().unwrap());
        assert!(v6.starts_with("1.0.0.0.") && v6.ends_with(".8.b.d.0.1.0.0.2"), "{v6}");
        assert_eq!(v6.split('.').count(), 32);
    }
}
