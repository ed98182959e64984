//! `kumo.aaa`: who may do what, and the log of it.

use crate::api::{Member, Module, Proof::Example, Proof::Test, Type, function};
use crate::context::Host;
use crate::convert;
use crate::modules::kumo::starts;
use crate::modules::messages::{program, surroundings};
use crate::modules::secrets::key_octets;
use crate::types::acl::{LuaAcl, LuaAclMap, LuaResource};
use access::{AccessControlList, AclMap, AuthInfo, http_resources};
use config::{AcctLog, AclSettings, Duration};
use mlua::{Lua, UserDataRef, Value};
use std::net::SocketAddr;
use std::sync::Arc;

/// The module.
pub(crate) const AAA: Module = Module {
    name: "kumo.aaa",
    doc: "Who may do what: lists of rules for resources, and the accounting log. The first rule that is about somebody and what they \
          want decides; what none is about is not allowed.",
    functions: &[&[
        function!(
            "kumo.aaa",
            "make_access_control_list",
            "(list of {criteria, privilege, access}) -> ACL",
            "Rules in order: whom each is about (`{Identity = {Individual | Group | Machine | MachineSet = ...}}`, `{Identity = 'Any'}`, \
             `'Authenticated'`, `'Unauthenticated'`, `{AllOf | AnyOf = list}`, `{Not = criteria}`), what they want (of HTTP the method), \
             and `Allow` or `Deny`.",
            Test("testing/e2e/tests/acls.rs::rules_of_policy_decide_who_may_ask_what"),
            make_list
        ),
        function!(
            waits
            "kumo.aaa",
            "load_acl_map",
            "(KeySource) -> AclMap",
            "Lists by resource from TOML: `[[acl.\"RESOURCE\"]]` with `allow`, `privileges`, and `identity` or `criteria`. May be memoized.",
            Test("testing/e2e/tests/acls.rs::rules_of_policy_decide_who_may_ask_what"),
            load_map
        ),
        function!(
            "kumo.aaa",
            "make_http_url_resource",
            "(local_address, url) -> Resource",
            "What a request for that URL, to the HTTP listener at that address and port, is about; the URL's host does not count.",
            Test("testing/e2e/tests/acls.rs::scripts_ask_what_somebody_may_do"),
            make_resource
        ),
        function!(
            waits
            "kumo.aaa",
            "query_resource_access",
            "(resource, auth_info, privilege) -> disposition",
            "Whether somebody may do that: `{Allow = {rule, resource}}`, `{Deny = {rule, resource}}` or `'DenyByDefault'`. The accounting \
             log has it too.",
            Test("testing/e2e/tests/acls.rs::scripts_ask_what_somebody_may_do"),
            query
        ),
        function!(
            "kumo.aaa",
            "set_acl_cache_ttl",
            "(duration)",
            "In `init`: how long what `get_acl_definition` says of a resource holds; 5 minutes by default.",
            Test("testing/e2e/tests/acls.rs::what_was_said_of_a_resource_holds_for_a_while"),
            |lua, ttl: Value| {
                let ttl: Duration = convert::options("kumo.aaa.set_acl_cache_ttl", &ttl)?;
                set(lua, |acls| acls.cache_ttl = ttl)
            }
        ),
        function!(
            "kumo.aaa",
            "set_check_cache_ttl",
            "(duration)",
            "In `init`. Accepted: results are not kept, since with the rules at hand deciding costs no more than looking one up.",
            Example("assert(not pcall(kumo.aaa.set_check_cache_ttl, 'soon'))"),
            |lua, ttl: Value| {
                let _: Duration = convert::options("kumo.aaa.set_check_cache_ttl", &ttl)?;
                set(lua, |_| ())
            }
        ),
        function!(
            "kumo.aaa",
            "set_fall_back_to_acl_map",
            "(boolean)",
            "In `init`: whether the built-in lists decide where `get_acl_definition` says nothing, as they do by default.",
            Test("testing/e2e/tests/acls.rs::without_the_built_in_lists_only_policy_allows"),
            |lua, falls_back: bool| set(lua, |acls| acls.falls_back = falls_back)
        ),
        function!(
            "kumo.aaa",
            "configure_acct_log",
            "{options}",
            "In `init`, once: who proved who they are or failed to, over HTTP and by SMTP's AUTH, and what they were let do, in segments of \
             JSON lines as logs have them.",
            Test("testing/e2e/tests/acls.rs::the_accounting_log_says_who_did_what"),
            |lua, options: Value| starts::<AcctLog>(lua, "kumo.aaa.configure_acct_log", &options)
        ),
    ]],
    types: &[
        Type {
            name: "ACL",
            prefix: "acl",
            doc: "Rules for a resource: what `get_acl_definition` returns.",
            members: &[],
        },
        Type {
            name: "AclMap",
            prefix: "aclmap",
            doc: "Lists by resource: the result of `kumo.aaa.load_acl_map`.",
            members: &[Member {
                name: "aclmap:get",
                signature: "(resource) -> ACL or nil",
                doc: "The rules of a resource.",
                proof: Test("testing/e2e/tests/acls.rs::rules_of_policy_decide_who_may_ask_what"),
            }],
        },
    ],
};

fn make_list(lua: &Lua, rules: Value) -> mlua::Result<LuaAcl> {
    let json = convert::to_json(lua, &rules)?;
    let list = AccessControlList::parse("kumo.aaa.make_access_control_list", json);
    list.map(|list| LuaAcl(Arc::new(list))).map_err(|error| mlua::Error::runtime(error.to_string()))
}

async fn load_map(lua: Lua, source: Value) -> mlua::Result<LuaAclMap> {
    let octets = key_octets(&lua, &source).await?;
    let text = String::from_utf8(octets).map_err(|error| mlua::Error::runtime(error.to_string()))?;
    let map = AclMap::parse(&text).map_err(|error| mlua::Error::runtime(error.to_string()))?;
    Ok(LuaAclMap(Arc::new(map)))
}

fn make_resource(_: &Lua, (local, url): (String, String)) -> mlua::Result<LuaResource> {
    let local: SocketAddr = local.parse().map_err(|_| {
        mlua::Error::runtime(format!(
            "invalid local_address {local:?}: expected an address and a port, such as 127.0.0.1:8000"
        ))
    })?;
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let path = match url.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.split_once('/').map_or("", |(_, path)| path),
        _ => url,
    };
    if path.split('/').any(|part| part == "." || part == "..") {
        return Err(mlua::Error::runtime(format!("invalid url {url:?}: expected a path without `.` and `..`")));
    }
    Ok(LuaResource(http_resources(local, path)))
}

async fn query(lua: Lua, (resource, who, privilege): (UserDataRef<LuaResource>, Value, String)) -> mlua::Result<Value> {
    let resources = resource.0.clone();
    drop(resource);
    let auth: AuthInfo = convert::options("AuthInfo", &who)?;
    let function = "kumo.aaa.query_resource_access";
    let around = surroundings(&lua, function)?;
    let found = program(&around, function)?.may(resources, auth, privilege).await.map_err(mlua::Error::runtime)?;
    convert::to_lua(&lua, &serde_json::to_value(found).map_err(mlua::Error::external)?)
}

fn set(lua: &Lua, change: impl FnOnce(&mut AclSettings)) -> mlua::Result<()> {
    let mut host = lua.app_data_mut::<Host>();
    let startup = host.as_mut().and_then(|host| host.startup.as_mut());
    change(&mut startup.ok_or_else(|| mlua::Error::runtime("it can only be called from the init event"))?.acls);
    Ok(())
}
