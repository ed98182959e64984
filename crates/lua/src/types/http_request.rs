//! `Request` of `kumo.http`: what a script says of it, until it is sent.

use crate::api::{Member, Proof::Test, Type};
use crate::convert;
use crate::modules::crypto;
use crate::types::event_source::LuaEventSource;
use crate::types::http_response::LuaResponse;
use crate::waiting::{GRACE, wait};
use config::{AwsRequestSigning, AwsSigning};
use mlua::{AnyUserData, FromLua, FromLuaMulti, Lua, LuaString, MultiValue, Table, UserData, UserDataMethods, Value};
use std::collections::BTreeMap;
use web::{Client, Content, EventSource, Part, Request};

/// The userdata; `request` is `None` once it was sent.
pub(crate) struct LuaRequest {
    pub client: Client,
    pub request: Option<Request>,
}

impl LuaRequest {
    fn request(&mut self) -> mlua::Result<&mut Request> {
        self.request.as_mut().ok_or_else(|| mlua::Error::runtime("the request was sent before"))
    }
}

impl UserData for LuaRequest {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        edits(methods);
        contents(methods);
        methods.add_async_function("aws_sign_v4", |lua, (this, options): (AnyUserData, Table)| async move {
            aws_sign_v4(&lua, &this, options).await.map(|()| this)
        });
        methods.add_async_function("send", |lua, this: AnyUserData| async move {
            let (client, request) = {
                let mut this = this.borrow_mut::<LuaRequest>()?;
                this.request()?;
                (this.client.clone(), this.request.take().expect("it is there"))
            };
            let patience = client.patience(&request).saturating_add(GRACE);
            let answer = wait(&lua, "request:send", patience, client.send(request)).await?;
            answer.map(LuaResponse::new).map_err(mlua::Error::runtime)
        });
        methods.add_async_function("events", |lua, this: AnyUserData| async move {
            let (client, mut request) = {
                let mut this = this.borrow_mut::<LuaRequest>()?;
                this.request()?;
                (this.client.clone(), this.request.take().expect("it is there"))
            };
            request.add_header("accept", b"text/event-stream").map_err(mlua::Error::runtime)?;
            let patience = client.patience(&request);
            let answer = wait(&lua, "request:events", patience, client.send_without_end(request)).await?;
            let answer = answer.map_err(mlua::Error::runtime)?;
            let response = LuaResponse::without_content(answer.status, answer.headers.clone());
            let source = EventSource::of(answer).map_err(mlua::Error::runtime)?;
            Ok((LuaEventSource::new(source), response))
        });
    }
}

fn edits<M: UserDataMethods<LuaRequest>>(methods: &mut M) {
    edit(methods, "header", |_, request, (name, value): (String, LuaString)| {
        request.add_header(&name, &value.as_bytes()).map_err(mlua::Error::runtime)
    });
    edit(methods, "headers", |_, request, fields: BTreeMap<String, LuaString>| {
        let add = |(name, value): (&String, &LuaString)| request.add_header(name, &value.as_bytes());
        fields.iter().try_for_each(add).map_err(mlua::Error::runtime)
    });
    edit(methods, "basic_auth", |_, request, (user, password): (String, Option<String>)| {
        request.basic_auth(&user, password.as_deref()).map_err(mlua::Error::runtime)
    });
    edit(methods, "bearer_auth", |_, request, token: String| request.bearer_auth(&token).map_err(mlua::Error::runtime));
    edit(methods, "timeout", |_, request, limit: Value| {
        let limit: config::Duration = convert::options("request:timeout", &limit)?;
        request.timeout = Some(limit.get());
        Ok(())
    });
}

fn contents<M: UserDataMethods<LuaRequest>>(methods: &mut M) {
    edit(methods, "body", |_, request, octets: LuaString| {
        request.content = Content::Octets(octets.as_bytes().to_vec());
        Ok(())
    });
    edit(methods, "form_url_encoded", |_, request, pairs: BTreeMap<String, String>| {
        request.form(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        Ok(())
    });
    edit(methods, "form_multipart_data", |lua, request, fields: BTreeMap<String, Value>| {
        let fields = fields.into_iter().map(|(name, value)| Ok((name.clone(), part(lua, &name, value)?)));
        request.content = Content::Form(fields.collect::<mlua::Result<_>>()?);
        Ok(())
    });
}

/// A method that changes a request and returns it, so that calls can be chained.
fn edit<M, A>(
    methods: &mut M,
    name: &'static str,
    edit: impl Fn(&Lua, &mut Request, A) -> mlua::Result<()> + Send + 'static,
) where
    M: UserDataMethods<LuaRequest>,
    A: FromLuaMulti,
{
    methods.add_function(name, move |lua, mut given: MultiValue| {
        let this = AnyUserData::from_lua(given.pop_front().unwrap_or(Value::Nil), lua)?;
        let named = |e| mlua::Error::runtime(format!("request:{name}: {e}"));
        let arguments = A::from_lua_args(given, 2, Some(name), lua)?;
        edit(lua, this.borrow_mut::<LuaRequest>()?.request()?, arguments).map_err(named)?;
        Ok(this)
    });
}

/// A field of a form: a string, or `{ data = ..., file_name = ... }`.
fn part(lua: &Lua, name: &str, value: Value) -> mlua::Result<Part> {
    if let Value::Table(table) = &value {
        for pair in table.pairs::<String, Value>() {
            let (key, _) = pair?;
            if key != "data" && key != "file_name" {
                return Err(mlua::Error::runtime(format!("{name}: unknown field `{key}`, expected data or file_name")));
            }
        }
        let data: LuaString = table.get("data")?;
        return Ok(Part { octets: data.as_bytes().to_vec(), file_name: table.get("file_name")? });
    }
    let kind = value.type_name();
    let text = LuaString::from_lua(value, lua)
        .map_err(|_| mlua::Error::runtime(format!("{name}: a {kind}: expected a string or {{data, file_name}}")))?;
    Ok(Part { octets: text.as_bytes().to_vec(), file_name: None })
}

/// Signs it as it stands; fields added later are not signed.
async fn aws_sign_v4(lua: &Lua, this: &AnyUserData, options: Table) -> mlua::Result<()> {
    let (options, payload) = crypto::beside_payload(lua, options)?;
    let options: AwsRequestSigning = convert::options("request:aws_sign_v4", &options)?;
    let (signing, query, content) = {
        let mut this = this.borrow_mut::<LuaRequest>()?;
        let request = this.request()?;
        for (name, value) in &options.headers {
            request.add_header(name, value.as_bytes()).map_err(mlua::Error::runtime)?;
        }
        let content = match &request.content {
            Content::Octets(octets) => octets.clone(),
            Content::None => Vec::new(),
            Content::Form(_) => {
                return Err(mlua::Error::runtime("request:aws_sign_v4: a multipart form is not signed"));
            }
        };
        let signing = AwsSigning {
            access_key: options.access_key,
            secret_key: options.secret_key,
            region: options.region,
            service: options.service,
            method: request.method.to_string(),
            uri: request.url.path().to_owned(),
            query_params: BTreeMap::new(),
            headers: request.fields_to_sign(),
            timestamp: options.timestamp,
            session_token: options.session_token,
        };
        let query = request.url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
        (signing, query, content)
    };
    let signed = crypto::signed(lua, &signing, query, &payload.unwrap_or(content)).await?;
    let mut this = this.borrow_mut::<LuaRequest>()?;
    this.request()?.add_signature(&signed, signing.session_token.as_deref()).map_err(mlua::Error::runtime)
}

const ASKED: &str = "testing/e2e/tests/http_scripts.rs::scripts_ask_other_servers";

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "Request",
    prefix: "request",
    doc: "What `client:get`, `client:post` and `client:put` return. Every method but `send` returns the request, so that calls \
          can be chained: `client:post(url):header('X-A', '1'):body('text'):send()`.",
    members: &[
        Member {
            name: "request:header",
            signature: "(name, value) -> self",
            doc: "Adds a header field.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:headers",
            signature: "(map) -> self",
            doc: "Adds header fields by name.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:basic_auth",
            signature: "(user, password or nil) -> self",
            doc: "Says who asks (RFC 7617).",
            proof: Test(ASKED),
        },
        Member {
            name: "request:bearer_auth",
            signature: "(token) -> self",
            doc: "Says who asks (RFC 6750).",
            proof: Test(ASKED),
        },
        Member { name: "request:body", signature: "(octets) -> self", doc: "What it carries.", proof: Test(ASKED) },
        Member {
            name: "request:form_url_encoded",
            signature: "(map) -> self",
            doc: "Carries the pairs as a form, and says so in `Content-Type`.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:form_multipart_data",
            signature: "(map) -> self",
            doc: "Carries a form of several parts (RFC 7578): a value is a string, or `{ data = ..., file_name = ... }`. Octets \
                  that are no text, and files, are `application/octet-stream`.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:timeout",
            signature: "(duration) -> self",
            doc: "Another time limit than that of the client: seconds, or a text such as `5s`.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:aws_sign_v4",
            signature: "{options} -> self",
            doc: "Signs it as it stands, for a service of Amazon's: adds `Authorization` and `X-Amz-Date`. `payload` is what is \
                  signed instead of the content. Options as for `kumo.crypto.aws_sign_v4`, without `method`, `uri` and \
                  `query_params`.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:send",
            signature: "() -> Response",
            doc: "Sends it, once, and waits for status and header fields of the answer. Whatever status that has is no error; no \
                  answer is one.",
            proof: Test(ASKED),
        },
        Member {
            name: "request:events",
            signature: "() -> EventSource, Response",
            doc: "Sends it, once, and reads the answer as server-sent events. The time limit is for status and header fields: \
                  events go on for as long as the server likes. An answer of another kind is an error, such as `HTTP error: 404 \
                  Not Found`.",
            proof: Test("testing/e2e/tests/http_scripts.rs::scripts_read_server_sent_events"),
        },
    ],
};
