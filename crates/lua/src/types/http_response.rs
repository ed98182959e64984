//! `Response` of `kumo.http`, and its header fields.

use crate::api::{Member, Proof::Test, Type};
use crate::waiting::{FOREVER, wait};
use encoding_rs::{Encoding, UTF_8};
use mlua::{AnyUserData, Lua, MetaMethod, UserData, UserDataMethods, Value};
use web::{Answer, HeaderMap, StatusCode};

/// The userdata.
pub(crate) struct LuaResponse {
    status: StatusCode,
    headers: HeaderMap,
    content_length: Option<u64>,
    /// Until its content was read.
    answer: Option<Answer>,
}

impl LuaResponse {
    /// An answer.
    pub fn new(answer: Answer) -> LuaResponse {
        LuaResponse {
            status: answer.status,
            headers: answer.headers.clone(),
            content_length: answer.content_length,
            answer: Some(answer),
        }
    }

    /// What opened a websocket.
    pub fn without_content(status: StatusCode, headers: HeaderMap) -> LuaResponse {
        LuaResponse { status, headers, content_length: None, answer: None }
    }
}

impl UserData for LuaResponse {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("status_code", |_, this, ()| Ok(this.status.as_u16()));
        methods.add_method("status_reason", |_, this, ()| Ok(this.status.canonical_reason()));
        methods.add_method("status_is_informational", |_, this, ()| Ok(this.status.is_informational()));
        methods.add_method("status_is_success", |_, this, ()| Ok(this.status.is_success()));
        methods.add_method("status_is_redirection", |_, this, ()| Ok(this.status.is_redirection()));
        methods.add_method("status_is_client_error", |_, this, ()| Ok(this.status.is_client_error()));
        methods.add_method("status_is_server_error", |_, this, ()| Ok(this.status.is_server_error()));
        methods.add_method("content_length", |_, this, ()| Ok(this.content_length));
        methods.add_method("headers", |_, this, ()| Ok(LuaHeaders(this.headers.clone())));
        methods.add_async_function("text", |lua, this: AnyUserData| async move {
            let (charset, octets) = content(&lua, &this).await?;
            lua.create_string(&*charset.decode(&octets).0)
        });
        methods.add_async_function("bytes", |lua, this: AnyUserData| async move {
            let (_, octets) = content(&lua, &this).await?;
            lua.create_string(octets)
        });
    }
}

/// The content, once, and the character set that the answer names. The library's own time limit ends it.
async fn content(lua: &Lua, this: &AnyUserData) -> mlua::Result<(&'static Encoding, Vec<u8>)> {
    let (charset, answer) = {
        let mut this = this.borrow_mut::<LuaResponse>()?;
        (charset(&this.headers), this.answer.take())
    };
    let answer = answer.ok_or_else(|| mlua::Error::runtime("the content of the answer was read before"))?;
    let octets = wait(lua, "response:text", FOREVER, answer.content()).await?;
    Ok((charset, octets.map_err(mlua::Error::runtime)?.to_vec()))
}

fn charset(headers: &HeaderMap) -> &'static Encoding {
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let named = kind.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then_some(value.trim().trim_matches('"'))
    });
    named.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8)
}

/// Header fields: by name in any case of letters, the first of several.
struct LuaHeaders(HeaderMap);

impl UserData for LuaHeaders {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Index, |lua, this, name: String| {
            this.0.get(&name).map(|value| lua.create_string(value.as_bytes())).transpose()
        });
        methods.add_meta_method(MetaMethod::Pairs, |lua, this, ()| {
            let mut fields = this.0.clone().into_iter();
            // The name is given with the first of several of that name only.
            let mut last = None;
            let next = lua.create_function_mut(move |lua, _: (Value, Value)| {
                let Some((name, value)) = fields.next() else { return Ok((Value::Nil, Value::Nil)) };
                last = name.or_else(|| last.take());
                let name = last.as_ref().map(|name| lua.create_string(name.as_str())).transpose()?;
                let value = lua.create_string(value.as_bytes())?;
                Ok((name.map_or(Value::Nil, Value::String), Value::String(value)))
            })?;
            Ok((next, Value::Nil, Value::Nil))
        });
    }
}

const ASKED: &str = "testing/e2e/tests/http_scripts.rs::scripts_ask_other_servers";

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "Response",
    prefix: "response",
    doc: "What `request:send` returns.",
    members: &[
        Member {
            name: "response:status_code",
            signature: "() -> integer",
            doc: "The status, such as 200.",
            proof: Test(ASKED),
        },
        Member {
            name: "response:status_reason",
            signature: "() -> string or nil",
            doc: "What that status is called, such as `OK`; nil when nobody named it.",
            proof: Test(ASKED),
        },
        Member {
            name: "response:status_is_informational",
            signature: "() -> boolean",
            doc: "1xx.",
            proof: Test("testing/e2e/tests/http_scripts.rs::scripts_read_websockets"),
        },
        Member { name: "response:status_is_success", signature: "() -> boolean", doc: "2xx.", proof: Test(ASKED) },
        Member { name: "response:status_is_redirection", signature: "() -> boolean", doc: "3xx.", proof: Test(ASKED) },
        Member { name: "response:status_is_client_error", signature: "() -> boolean", doc: "4xx.", proof: Test(ASKED) },
        Member { name: "response:status_is_server_error", signature: "() -> boolean", doc: "5xx.", proof: Test(ASKED) },
        Member {
            name: "response:headers",
            signature: "() -> headers",
            doc: "Its header fields: `headers['content-type']`, in any case of letters, is the first of that name or nil; \
                  `pairs(headers)` goes through all.",
            proof: Test(ASKED),
        },
        Member {
            name: "response:content_length",
            signature: "() -> integer or nil",
            doc: "Octets of its content, where the server says so.",
            proof: Test(ASKED),
        },
        Member {
            name: "response:text",
            signature: "() -> string",
            doc: "Waits for its content, at most 64 MiB, once; in UTF-8, from the character set that `Content-Type` names.",
            proof: Test(ASKED),
        },
        Member {
            name: "response:bytes",
            signature: "() -> string",
            doc: "The same as the octets are.",
            proof: Test(ASKED),
        },
    ],
};
