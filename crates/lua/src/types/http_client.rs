//! `Client` of `kumo.http`.

use crate::api::{Member, Proof::Test, Type};
use crate::types::http_request::LuaRequest;
use mlua::{UserData, UserDataMethods};
use web::{Client, Method, Request};

/// The userdata; `None` once it was closed.
pub(crate) struct LuaHttpClient(pub Option<Client>);

impl LuaHttpClient {
    fn request(&self, name: &str, method: Method, url: &str) -> mlua::Result<LuaRequest> {
        let client = self.0.clone().ok_or_else(|| mlua::Error::runtime(format!("{name}: client was closed")))?;
        let request = Request::new(method, url).map_err(|why| mlua::Error::runtime(format!("{name}: {why}")))?;
        Ok(LuaRequest { client, request: Some(request) })
    }
}

impl UserData for LuaHttpClient {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |_, this, url: String| this.request("get", Method::GET, &url));
        methods.add_method("post", |_, this, url: String| this.request("post", Method::POST, &url));
        methods.add_method("put", |_, this, url: String| this.request("put", Method::PUT, &url));
        methods.add_method_mut("close", |_, this, ()| {
            this.0 = None;
            Ok(())
        });
    }
}

const ASKED: &str = "testing/e2e/tests/http_scripts.rs::scripts_ask_other_servers";

/// What the manual says of it.
pub(crate) const TYPE: Type = Type {
    name: "Client",
    prefix: "client",
    doc: "What `kumo.http.build_client` returns.",
    members: &[
        Member {
            name: "client:get",
            signature: "(url) -> Request",
            doc: "A GET request, not sent yet.",
            proof: Test(ASKED),
        },
        Member {
            name: "client:post",
            signature: "(url) -> Request",
            doc: "A POST request, not sent yet.",
            proof: Test(ASKED),
        },
        Member {
            name: "client:put",
            signature: "(url) -> Request",
            doc: "A PUT request, not sent yet.",
            proof: Test(ASKED),
        },
        Member {
            name: "client:close",
            signature: "()",
            doc: "Makes no more requests; asked for one it says `client was closed`.",
            proof: Test(ASKED),
        },
    ],
};
