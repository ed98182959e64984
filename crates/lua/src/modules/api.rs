//! `kumo.api`: what the HTTP API does, for scripts.
//!
//! Requests are those of the HTTP API, checked as strictly; answers too. Nobody is asked who he is: a script is the operator's.
//! They exist while the program serves.

use crate::api::Proof::Test;
use crate::api::{Module, function};
use crate::convert;
use crate::modules::messages::{new_of, program, refused, surroundings};
use crate::types::message::{LuaMessage, now};
use crate::waiting::wait;
use clock::WallTime;
use injection::{Generator, Injection, Outcome};
use message::Meta;
use mlua::{Lua, Value};
use policy::{AuthInfo, Identity};
use serde_json::{Value as Json, json};
use std::net::Ipv4Addr;
use std::time::Duration;

/// A function that asks the administrative API.
macro_rules! asked {
    ($module:literal, $name:literal, $signature:literal, $doc:literal, $method:literal, $path:expr) => {
        function!(
            waits
            $module,
            $name,
            $signature,
            $doc,
            Test("testing/e2e/tests/injection.rs::scripts_give_orders"),
            |lua: Lua, request: Option<Value>| administer(lua, concat!($module, ".", $name), ($method, $path), request)
        )
    };
}
/// `kumo.api.inject`.
pub(crate) const API_INJECT: Module = Module {
    name: "kumo.api.inject",
    doc: "Messages out of templates, texts and attachments: the request of `POST /api/inject/v1`.",
    functions: &[&[
        function!(
            waits
            "kumo.api.inject",
            "inject_v1",
            "(request) -> {success_count, fail_count, failed_recipients, errors}",
            "Makes a message for each recipient and queues it, as `POST /api/inject/v1` does; no rate limit holds it up.",
            Test("testing/e2e/tests/injection.rs::scripts_inject_what_requests_do"),
            inject
        ),
        function!(
            "kumo.api.inject",
            "build_v1",
            "(request) -> list of Messages",
            "Makes the messages and leaves them to the script: `kumo.inject_message` queues one. A recipient for whom there is none is \
             an error.",
            Test("testing/e2e/tests/injection.rs::scripts_inject_what_requests_do"),
            build
        ),
    ]],
    types: &[],
};

/// `kumo.api.admin.bounce`.
pub(crate) const API_BOUNCE: Module = Module {
    name: "kumo.api.admin.bounce",
    doc: "Orders that bounce queued mail: those of `/api/admin/bounce/v1`.",
    functions: &[&[
        asked!("kumo.api.admin.bounce", "bounce", "(request) -> id", "Gives one.", "POST", BOUNCE),
        asked!("kumo.api.admin.bounce", "list", "() -> list", "Those in force.", "GET", BOUNCE),
        asked!(
            "kumo.api.admin.bounce",
            "delete",
            "(id) -> bool",
            "Takes one back; false where there is no such order.",
            "DELETE",
            BOUNCE
        ),
    ]],
    types: &[],
};

/// `kumo.api.admin.suspend`.
pub(crate) const API_SUSPEND: Module = Module {
    name: "kumo.api.admin.suspend",
    doc: "Orders that hold back scheduled queues: those of `/api/admin/suspend/v1`.",
    functions: &[&[
        asked!("kumo.api.admin.suspend", "suspend", "(request) -> id", "Gives one.", "POST", SUSPEND),
        asked!("kumo.api.admin.suspend", "list", "() -> list", "Those in force.", "GET", SUSPEND),
        asked!(
            "kumo.api.admin.suspend",
            "delete",
            "(id) -> bool",
            "Takes one back; false where there is no such order.",
            "DELETE",
            SUSPEND
        ),
    ]],
    types: &[],
};

/// `kumo.api.admin.suspend_ready_q`.
pub(crate) const API_SUSPEND_READY_Q: Module = Module {
    name: "kumo.api.admin.suspend_ready_q",
    doc: "Orders that hold back ready queues: those of `/api/admin/suspend-ready-q/v1`.",
    functions: &[&[
        asked!("kumo.api.admin.suspend_ready_q", "suspend", "(request) -> id", "Gives one.", "POST", READY_Q),
        asked!("kumo.api.admin.suspend_ready_q", "list", "() -> list", "Those in force.", "GET", READY_Q),
        asked!(
            "kumo.api.admin.suspend_ready_q",
            "delete",
            "(id) -> bool",
            "Takes one back; false where there is no such order.",
            "DELETE",
            READY_Q
        ),
    ]],
    types: &[],
};

async fn inject(lua: Lua, request: Value) -> mlua::Result<Value> {
    let injection: Injection = convert::parsed(INJECT, &request)?;
    let around = surroundings(&lua, INJECT)?;
    let program = program(&around, INJECT)?;
    let identity = Identity { identity: String::new(), context: "LocalSystem".to_owned() };
    let here = Some(Ipv4Addr::LOCALHOST.into());
    let auth = AuthInfo { peer_address: here, identities: vec![identity], groups: Vec::new() };
    // Without an answer nobody knows: it may not be tried again.
    let outcome = wait(&lua, INJECT, INJECTION_MAX, program.inject_request(injection, auth)).await?;
    let outcome: Outcome = outcome.map_err(|why| refused(INJECT, &why))?;
    let json = serde_json::to_value(outcome).map_err(mlua::Error::external)?;
    convert::to_lua(&lua, &json)
}

fn build(lua: &Lua, request: Value) -> mlua::Result<Vec<LuaMessage>> {
    let injection: Injection = convert::parsed(BUILD, &request)?;
    let around = surroundings(lua, BUILD)?;
    let program = program(&around, BUILD)?;
    let id = || program.message_id().ok_or_else(|| refused(BUILD, &"the program ends"));
    let seed = id()?.created().unix_micros().unsigned_abs();
    let generator = Generator::new(&injection, seed).map_err(|error| refused(BUILD, &error))?;
    let due = WallTime::from_unix_micros(now().unix_micros());
    let one = |number| {
        let draft = generator.draft(number, id()?, Meta::new(), due).map_err(|error| refused(BUILD, &error))?;
        new_of(lua, draft)
    };
    (0..generator.len()).map(one).collect()
}

/// Asks the administrative API for one of its endpoints.
pub(super) async fn administer(
    lua: Lua,
    function: &'static str,
    (method, path): (&'static str, &'static str),
    request: Option<Value>,
) -> mlua::Result<Value> {
    let request = request.map_or(Ok(Json::Null), |request| convert::to_json(&lua, &request))?;
    // An id alone says which order is meant.
    let request = if request.is_string() { json!({ "id": request }) } else { request };
    let around = surroundings(&lua, function)?;
    let asked = program(&around, function)?.administer(method, path, request);
    let answer = wait(&lua, function, ADMINISTRATION_MAX, asked).await?.map_err(|why| refused(function, &why))?;
    // An order is known by its id, and one that was taken back is gone.
    let answer = match (method, answer) {
        ("POST", mut given) => given["id"].take(),
        ("DELETE", taken_back) => Json::Bool(taken_back != Json::Bool(false)),
        (_, list) => list,
    };
    convert::to_lua(&lua, &answer)
}

const INJECT: &str = "kumo.api.inject.inject_v1";
const BUILD: &str = "kumo.api.inject.build_v1";
const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const READY_Q: &str = "/api/admin/suspend-ready-q/v1";
/// Longest time a request may take: the messages of thousands of recipients are made, signed and synced.
const INJECTION_MAX: Duration = Duration::from_secs(600);
/// Longest time an order may take.
const ADMINISTRATION_MAX: Duration = Duration::from_secs(60);
