//! `kumo.http`: requests to other servers, over HTTP and HTTPS, and websockets.
//!
//! In: URLs, header fields, bodies. Out: answers, whose content is read when a script asks for it, at most
//! [`web::ANSWER_OCTETS_MAX`]. Fails with what the libraries say of connection, TLS or time. What happens on the wire is the
//! web crate's.

use crate::api::{Function, Module, Proof::Example, Proof::Test, function};
use crate::convert;
use crate::modules::memoize::commons;
use crate::types::event_source;
use crate::types::http_client::{self, LuaHttpClient};
use crate::types::http_request;
use crate::types::http_response::{self, LuaResponse};
use crate::types::websocket::{self, LuaWebSocket};
use crate::waiting::wait;
use config::HttpClientOptions;
use mlua::{Lua, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use web::{Client, WebSocket, with_parameters};

/// The module.
pub(crate) const HTTP: Module = Module {
    name: "kumo.http",
    doc: "Requests to other servers, over HTTP and HTTPS, websockets and server-sent events. Certificates are verified as for mail: by the roots of \
          the file that `SSL_CERT_FILE` names, else the system's. Requests respect `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`; websockets do not.",
    functions: &[FUNCTIONS],
    types: &[http_client::TYPE, http_request::TYPE, http_response::TYPE, websocket::TYPE, event_source::TYPE],
};

const FUNCTIONS: &[Function] = &[
    function!(
        "kumo.http",
        "build_client",
        "{options} -> Client",
        "A client, which keeps connections for reuse.",
        Test("testing/e2e/tests/http_scripts.rs::scripts_ask_other_servers"),
        build_client
    ),
    function!(
        "kumo.http",
        "build_url",
        "(base, parameters) -> string",
        "A URL with these parameters behind those it has, in the order of their names.",
        Example(
            "assert(kumo.http.build_url('http://a.test/x?q=1', { b = 'c d', a = '&' }) == 'http://a.test/x?q=1&a=%26&b=c+d') \
             assert(not pcall(kumo.http.build_url, 'no url', {}))"
        ),
        |_: &Lua, (base, parameters): (String, BTreeMap<String, String>)| {
            let pairs = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            with_parameters(&base, pairs).map_err(mlua::Error::runtime)
        }
    ),
    function!(
        waits
        "kumo.http",
        "connect_websocket",
        "(url) -> WebSocket, Response",
        "Opens a websocket, `ws://...` or `wss://...`. An answer other than 101 is an error, such as `HTTP error: 404 Not Found`.",
        Test("testing/e2e/tests/http_scripts.rs::scripts_read_websockets"),
        connect_websocket
    ),
];

fn build_client(lua: &Lua, options: Value) -> mlua::Result<LuaHttpClient> {
    let options: HttpClientOptions = convert::options("kumo.http.build_client", &options)?;
    let commons = commons(lua)?;
    let connectors = commons.web.connectors().map_err(mlua::Error::runtime)?;
    let client = Client::new(&options, connectors).map_err(mlua::Error::runtime)?;
    Ok(LuaHttpClient(Some(client)))
}

async fn connect_websocket(lua: Lua, url: String) -> mlua::Result<(LuaWebSocket, LuaResponse)> {
    let commons = commons(&lua)?;
    let connectors = commons.web.connectors().map_err(mlua::Error::runtime)?;
    let opening = WebSocket::connect(&url, connectors);
    let opened = wait(&lua, "kumo.http.connect_websocket", CONNECT_TIMEOUT, opening).await?;
    let (socket, status, headers) = opened.map_err(mlua::Error::runtime)?;
    Ok((LuaWebSocket::new(socket), LuaResponse::without_content(status, headers)))
}

/// Time limit for opening a websocket.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
