//! `kumo.spf`, `kumo.dmarc` and `kumo.dns.iprev`: what the domain of a sender, that of an author, and the names of a client, say of a
//! message.
//!
//! DNS is asked through policy's resolvers, while the program serves. What strangers sent, and what DNS says, is a result; errors
//! are of calls that cannot be answered.

use crate::api::Proof::Test;
use crate::api::{Function, Module, function};
use crate::context::Host;
use crate::convert;
use crate::dmarc_seen::{self, ReportingInfo};
use crate::types::address::LuaAddress;
use crate::types::conn_meta::LuaConnMeta;
use crate::types::message::{LuaMessage, now};
use crate::types::message_checks::{CHECK_MAX, asked, table, unix_secs};
use crate::types::mime_part::seed;
use crate::waiting::wait;
use message::Draft;
use mlua::{Lua, UserDataRef, UserDataRefMut, Value};
use sender_check::dmarc::{self, DmarcCheck, DmarcInput, Organisations};
use sender_check::spf::{self, SpfQuery};
use sender_check::{AuthenticationResult, iprev};
use std::net::{IpAddr, SocketAddr};

/// `kumo.spf`.
pub(crate) const SPF: Module = Module {
    name: "kumo.spf",
    doc: "Whether a domain lets a client send in its name (RFC 7208). Results are tables `{disposition, result}`.",
    functions: &[&[
        function!(
            waits
            "kumo.spf",
            "check_host",
            "(domain, conn_meta, sender or nil, resolver or nil) -> {disposition, result}",
            "Checks the client of a connection against a domain's record; without a sender the domain is what the client called itself.",
            Test("crates/lua/tests/scripts/checks.rs::spf_checks_clients_and_messages"),
            check_host
        ),
        function!(
            waits
            "kumo.spf",
            "check_msg",
            "(msg, resolver or nil) -> {disposition, result}",
            "Checks the client a message came from against the record of its sender's domain, or of what the client called itself when the \
             sender is null.",
            Test("crates/lua/tests/scripts/checks.rs::spf_checks_clients_and_messages"),
            check_msg
        ),
    ]],
    types: &[],
};

/// `kumo.dmarc`.
pub(crate) const DMARC: Module = Module {
    name: "kumo.dmarc",
    doc: "What the domain in From asks to be done with a message (RFC 7489).",
    functions: &[&[function!(
        waits
        "kumo.dmarc",
        "check_msg",
        "(msg, dkim_results, resolver or nil, spf_result, use_reporting = false, reporting_info or nil, tree_walk = false) -> {disposition, result}",
        "Judges a message by the results of `msg:dkim_verify` and `kumo.spf`. It is counted where `kumo.configure_dmarc_reports` says so, \
         whatever `use_reporting` is. `reporting_info` is `{ignore = false, disposition, reason, comment}`: what became of it instead. \
         With `tree_walk`, an addition, organisations are found as RFC 9989 has it, else by the public suffix list.",
        Test("crates/lua/tests/scripts/checks.rs::all_checks_together_make_the_header"),
        check_dmarc
    )]],
    types: &[],
};

/// What `kumo.dns` has of them.
pub(super) const OF_CLIENTS: &[Function] = &[function!(
    waits
    "kumo.dns",
    "iprev",
    "(ip, resolver or nil) -> result",
    "Whether an address has a name that leads back to it (RFC 8601 section 3): `pass`, `fail`, `permerror` when it has no name, \
     `temperror` when DNS did not answer in time. An addition.",
    Test("crates/lua/tests/scripts/checks.rs::clients_are_known_by_names_that_lead_back"),
    check_iprev
)];

async fn check_iprev(lua: Lua, (ip, resolver): (String, Option<String>)) -> mlua::Result<Value> {
    let address = ip.parse::<IpAddr>();
    let address = address.map_err(|_| mlua::Error::runtime(format!("{IPREV}: {ip:?}: expected an IP address")))?;
    let resolver = asked(&lua, IPREV, resolver.as_deref())?;
    let found = wait(&lua, IPREV, CHECK_MAX, iprev(&resolver, address)).await?;
    table(&lua, &found)
}

async fn check_host(
    lua: Lua,
    (domain, conn, sender, resolver): (String, UserDataRef<LuaConnMeta>, Value, Option<String>),
) -> mlua::Result<Value> {
    let resolver = asked(&lua, HOST, resolver.as_deref())?;
    let sender = match &sender {
        Value::Nil => None,
        given => LuaAddress::read(HOST, given)?.0.map(|mailbox| mailbox.as_str().to_owned()),
    };
    let text = |name: &str| conn.0.get(name).and_then(|value| value.as_str().map(str::to_owned));
    let ip = address(HOST, "conn_meta", text("received_from"))?;
    let (helo, receiver) = (text("ehlo_domain").unwrap_or_default(), text("hostname").unwrap_or_default());
    let query = SpfQuery {
        ip,
        domain: &domain,
        sender: sender.as_deref(),
        helo: if helo.is_empty() { &domain } else { &helo },
        receiver: &receiver,
        now_unix_secs: unix_secs(),
    };
    let found = wait(&lua, HOST, CHECK_MAX, spf::check_host(&resolver, &query)).await?;
    table(&lua, &found)
}

async fn check_msg(
    lua: Lua,
    (mut message, resolver): (UserDataRefMut<LuaMessage>, Option<String>),
) -> mlua::Result<Value> {
    let resolver = asked(&lua, MESSAGE, resolver.as_deref())?;
    let draft = message.draft()?;
    let text = |name: &str| draft.meta.string(name).ok().flatten().unwrap_or_default();
    let from = Some(text("received_from").to_owned()).filter(|from| !from.is_empty());
    let ip = address(MESSAGE, "msg", from)?;
    let sender = draft.envelope.sender.as_str();
    let query = SpfQuery::of_envelope(ip, sender, text("ehlo_domain"), text("hostname"), unix_secs());
    let found = wait(&lua, MESSAGE, CHECK_MAX, spf::check_host(&resolver, &query)).await?;
    table(&lua, &found)
}

/// A message, results of DKIM, a resolver, the result of SPF, two of reports, and whether to walk.
type DmarcArguments = (UserDataRefMut<LuaMessage>, Value, Option<String>, Value, Option<bool>, Value, Option<bool>);

async fn check_dmarc(
    lua: Lua,
    (mut message, dkim, resolver, spf, _use_reporting, reporting, tree_walk): DmarcArguments,
) -> mlua::Result<Value> {
    let dkim: Vec<AuthenticationResult> = convert::parsed(DMARC_MESSAGE, &dkim)?;
    let spf: AuthenticationResult = convert::parsed(DMARC_MESSAGE, &spf)?;
    let resolver = asked(&lua, DMARC_MESSAGE, resolver.as_deref())?;
    let input = DmarcInput { dkim: &dkim, spf: &spf, sample_percent: (seed() % 100) as u8 };
    let headers = message.draft()?.headers();
    let organisations = match tree_walk {
        Some(true) => Organisations::TreeWalk,
        _ => Organisations::PublicSuffixList,
    };
    let check = dmarc::check_by(organisations, &resolver, headers, input);
    let found = wait(&lua, DMARC_MESSAGE, CHECK_MAX, check).await?;
    report(&lua, message.draft()?, &found, (&dkim, &spf), &reporting)?;
    table(&lua, &found)
}

/// Has the check counted, and reported, as the program wants it.
fn report(
    lua: &Lua,
    draft: &mut Draft,
    found: &DmarcCheck,
    results: (&[AuthenticationResult], &AuthenticationResult),
    info: &Value,
) -> mlua::Result<()> {
    let info = ReportingInfo::read(info)?;
    let around = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    let Some(program) = around.as_ref().and_then(|around| around.program.get()) else { return Ok(()) };
    let wanted = program.reported();
    if !wanted.dmarc || info.is_ignored() {
        return Ok(());
    }
    let from = draft.meta.string("received_from").ok().flatten().map(str::to_owned);
    // What came from nowhere is of no client, and in no report.
    let Ok(ip) = address(DMARC_MESSAGE, "msg", from) else { return Ok(()) };
    let is_report = dmarc_seen::is_report(draft);
    let seen = dmarc_seen::counted(found, results, ip, draft.envelope.sender.as_str(), info, is_report);
    let Some(seen) = seen else { return Ok(()) };
    if wanted.failures
        && let Some(failure) = dmarc_seen::failure(found, results, &seen, draft, now().unix_seconds())
    {
        program.saw_failure(failure);
    }
    // Who asks for nothing needs no room.
    if !seen.policy.reports_to.is_empty() {
        program.saw_dmarc(seen);
    }
    Ok(())
}

/// The client's address, with a port or without.
fn address(function: &str, whose: &str, text: Option<String>) -> mlua::Result<IpAddr> {
    let wrong = |found: &str| {
        mlua::Error::runtime(format!(
            "{function}: received_from of {whose} is {found}: expected the address of a client, as SMTP and HTTP set it"
        ))
    };
    let text = text.ok_or_else(|| wrong("absent"))?;
    let parsed = text.parse().map(|socket: SocketAddr| socket.ip()).or_else(|_| text.parse::<IpAddr>());
    parsed.map_err(|_| wrong(&format!("{text:?}")))
}

const IPREV: &str = "kumo.dns.iprev";
const HOST: &str = "kumo.spf.check_host";
const MESSAGE: &str = "kumo.spf.check_msg";
const DMARC_MESSAGE: &str = "kumo.dmarc.check_msg";
