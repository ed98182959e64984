//! The methods of `msg` that check who made it: DKIM signatures, the ARC chain, and one more link of that.
//!
//! DNS is asked through policy's resolvers, while the program serves. What strangers sent is a result, never an error.

use crate::context::Host;
use crate::convert;
use crate::names::resolver_of;
use crate::types::message::{LuaMessage, now};
use crate::types::signer::LuaSigner;
use crate::waiting::wait;
use message::Draft;
use mime::HeaderBlock;
use mlua::{Function, Lua, MetaMethod, Table, UserDataRef, UserDataRefMut, Value};
use net::dns::Hurried;
use sender_check::arc::{self, SealInput, Sealing};
use sender_check::dkim::PublicKey;
use sender_check::{AuthenticationResult, Mail, dkim};
use serde::Serialize;
use smtp_wire::dot::{crlf_only, has_bare_line_ends};
use std::time::Duration;

/// The state has them.
struct Installed;

/// Adds the methods to a state that is about to have a message, unless it had one before: a state without messages needs none.
/// Each is made when a script first asks for it: Lua compiles a chunk for a method that may wait, and few states need these.
pub(crate) fn install(lua: &Lua) -> mlua::Result<()> {
    if lua.app_data_ref::<Installed>().is_some() {
        return Ok(());
    }
    let methods: Table = lua.create_userdata(LuaMessage::ended())?.metatable()?.get(MetaMethod::Index)?;
    let find = lua.create_function(|lua, (methods, name): (Table, Value)| {
        let method = method(lua, name.as_string().map(|name| name.as_bytes()).as_deref())?;
        if let Some(method) = &method {
            methods.raw_set(name, method)?;
        }
        Ok(method)
    })?;
    let behind = lua.create_table_from([(MetaMethod::Index.name(), find)])?;
    methods.set_metatable(Some(behind))?;
    lua.set_app_data(Installed);
    Ok(())
}

fn method(lua: &Lua, name: Option<&[u8]>) -> mlua::Result<Option<Function>> {
    match name {
        Some(b"dkim_verify") => lua.create_async_function(verify).map(Some),
        Some(b"arc_verify") => lua.create_async_function(verify_chain).map(Some),
        Some(b"arc_seal") => lua.create_async_function(seal).map(Some),
        _ => Ok(None),
    }
}

async fn verify(lua: Lua, (mut this, resolver): (UserDataRefMut<LuaMessage>, Option<String>)) -> mlua::Result<Value> {
    let resolver = asked(&lua, VERIFY, resolver.as_deref())?;
    let draft = this.draft()?;
    let body = draft.body();
    let mail = Mail::new(draft.headers(), &body);
    let results = wait(&lua, VERIFY, CHECK_MAX, dkim::verify(&resolver, &mail, unix_secs())).await?;
    table(&lua, &results)
}

async fn verify_chain(
    lua: Lua,
    (mut this, resolver): (UserDataRefMut<LuaMessage>, Option<String>),
) -> mlua::Result<Value> {
    let resolver = asked(&lua, CHAIN, resolver.as_deref())?;
    let draft = this.draft()?;
    let body = draft.body();
    let mail = Mail::new(draft.headers(), &body);
    let found = wait(&lua, CHAIN, CHECK_MAX, arc::verify(&resolver, &mail)).await?;
    table(&lua, &found.result)
}

async fn seal(
    lua: Lua,
    (mut this, signer, server_id, results, resolver): (
        UserDataRefMut<LuaMessage>,
        UserDataRef<LuaSigner>,
        String,
        Value,
        Option<String>,
    ),
) -> mlua::Result<()> {
    let results: Vec<AuthenticationResult> = convert::parsed(SEAL, &results)?;
    let resolver = asked(&lua, SEAL, resolver.as_deref())?;
    let signer = signer.0.clone();
    let draft = this.draft()?;
    let body = draft.body();
    let input =
        SealInput { signer: &signer.signer, server_id: &server_id, results: &results, now_unix_secs: unix_secs() };
    let mail = Mail::new(draft.headers(), &body);
    let sealing = wait(&lua, SEAL, CHECK_MAX, arc::seal(&resolver, &mail, input)).await?;
    match sealing.map_err(|error| mlua::Error::runtime(format!("msg:{error}")))? {
        Sealing::Sealed { fields } => {
            if let Some(key) = &signer.public_half {
                check_own_set(&lua, this.draft()?, &body, &fields, key)?;
            }
            let (block, _) = this.draft()?.edit_headers();
            fields.into_iter().try_for_each(|field| block.prepend_field(field)).map_err(mlua::Error::external)
        }
        // Nothing can mend it: the message goes on as it is.
        Sealing::Broken { reason } => {
            tracing::debug!("{SEAL}: the chain is broken: {reason}");
            Ok(())
        }
    }
}

/// Holds a signature that was just made against the message it is for, as it will be sent, and as a verifier would; one that does
/// not hold is counted.
///
/// # Errors
/// It does not hold.
pub(crate) fn check_own(lua: &Lua, draft: &mut Draft, body: &[u8], field: &[u8], key: &PublicKey) -> mlua::Result<()> {
    let block = HeaderBlock::parse(field);
    let view = block.view(field);
    let made = view.get(0).ok_or_else(|| mlua::Error::runtime("msg:dkim_sign: no field was made"))?;
    let checked = match as_sent(draft, body) {
        None => dkim::check_own(&Mail::new(draft.headers(), body), &made, key, unix_secs()),
        Some(sent) => {
            let block = HeaderBlock::parse(&sent);
            let mail = Mail::new(block.view(&sent), &sent[block.body_start()..]);
            let checked = dkim::check_own(&mail, &made, key, unix_secs());
            checked.map_err(|why| format!("{why}; {BARE}"))
        }
    };
    let Err(why) = checked else { return Ok(()) };
    Err(unused(lua, draft, "msg:dkim_sign: the signature that was made does not hold", &why))
}

/// The same for a set of ARC, which a receiver finds on top of the message.
fn check_own_set(
    lua: &Lua,
    draft: &mut Draft,
    body: &[u8],
    fields: &[Vec<u8>; 3],
    key: &PublicKey,
) -> mlua::Result<()> {
    let is_bare = has_bare_line_ends(body) || draft.headers().iter_all().any(|field| has_bare_line_ends(field.whole));
    let mut head: Vec<u8> = fields.iter().rev().flatten().copied().collect();
    head.extend_from_slice(&draft.head());
    let checked = if is_bare {
        let sent = crlf_only(head.iter().chain(body.iter()), head.len() + body.len());
        let block = HeaderBlock::parse(&sent);
        let checked = arc::check_own(&Mail::new(block.view(&sent), &sent[block.body_start()..]), key);
        checked.map_err(|why| format!("{why}; {BARE}"))
    } else {
        let block = HeaderBlock::parse(&head);
        arc::check_own(&Mail::new(block.view(&head), body), key)
    };
    let Err(why) = checked else { return Ok(()) };
    Err(unused(lua, draft, "msg:arc_seal: the set that was made does not hold", &why))
}

/// Counts and tells of what does not hold; the error for whoever asked for it.
fn unused(lua: &Lua, draft: &Draft, what: &str, why: &str) -> mlua::Error {
    let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    if let Some(program) = program.as_ref().and_then(|program| program.program.get()) {
        program.signature_failed();
    }
    tracing::error!("message {}: {what} and is not used: {why}", draft.id);
    mlua::Error::runtime(format!("{what}: {why}"))
}

/// The message as it is sent, when that is not as it stands: a bare CR or LF becomes CRLF, behind the back of whoever signed it.
fn as_sent(draft: &mut Draft, body: &[u8]) -> Option<Vec<u8>> {
    let is_bare = has_bare_line_ends(body) || draft.headers().iter_all().any(|field| has_bare_line_ends(field.whole));
    is_bare.then(|| {
        let head = draft.head();
        crlf_only(head.iter().chain(body.iter()), head.len() + body.len())
    })
}

/// The resolver a check asks; what DNS has not answered in time is a result of the check.
pub(crate) fn asked(lua: &Lua, function: &str, resolver: Option<&str>) -> mlua::Result<Hurried> {
    let resolver = resolver_of(lua, function, resolver)?;
    Ok(Hurried::new(resolver, tokio::time::Instant::now() + QUESTIONS_MAX, QUESTION_MAX))
}

/// A result as scripts see it.
pub(crate) fn table<T: Serialize>(lua: &Lua, found: &T) -> mlua::Result<Value> {
    convert::to_lua(lua, &serde_json::to_value(found).map_err(mlua::Error::external)?)
}

/// The time, as signatures have it.
pub(crate) fn unix_secs() -> u64 {
    now().unix_seconds().unsigned_abs()
}

/// Longest time the questions of a check may take, one after the other.
const QUESTIONS_MAX: Duration = Duration::from_secs(30);
/// Longest time for one of them: ten, as many as there are signatures looked at, take no longer than all may.
const QUESTION_MAX: Duration = Duration::from_secs(3);
/// Longer than a check takes once its questions are over.
pub(crate) const CHECK_MAX: Duration = Duration::from_secs(60);
/// What may be the matter when a signature does not hold over what is sent.
const BARE: &str = "there is a bare CR or LF, which is sent as CRLF";
const VERIFY: &str = "msg:dkim_verify";
const CHAIN: &str = "msg:arc_verify";
const SEAL: &str = "msg:arc_seal";
