//! The events of the `Policy` trait, answered by the script's handlers.
//!
//! Each call checks a state out, calls the handler, and returns the state only when all went
//! well. A missing handler never gets here: `interest` told the caller.

use crate::context::{Context, Source};
use crate::convert;
use crate::error::{LoadError, to_policy_error};
use crate::pool::Pool;
use crate::signers::Signers;
use crate::types::address::LuaAddress;
use crate::types::config_object::ConfigObject;
use crate::types::conn_meta::LuaConnMeta;
use crate::types::message::LuaMessage;
use config::{EgressPath, EgressPool, EgressSource, ListenerDomain, QueueConfig};
use message::Draft;
use mlua::{FromLuaMulti, IntoLuaMulti, Value};
use policy::{Answer, AuthIdentity, ConnMeta, Event, Interest, Policy, PolicyError, QueueParts, Startup};
use smtp_wire::{Mailbox, ReversePath};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// A loaded policy script.
pub struct LuaPolicy {
    source: Source,
    signers: Arc<Signers>,
    pool: Pool,
    interest: Interest,
}

impl LuaPolicy {
    /// Reads and runs a policy file, `pre_init` and `init` included.
    pub fn load(path: &Path) -> Result<(LuaPolicy, Startup), LoadError> {
        let text = std::fs::read_to_string(path).map_err(|cause| LoadError::Read { path: path.to_owned(), cause })?;
        let source = Source { path: path.to_owned(), text };
        let signers = Arc::new(Signers::default());
        let context = Context::load(&source, signers.clone())?;
        let startup = context.run_init(path)?;
        let interest = context.interest();
        let policy = LuaPolicy { source, signers, pool: Pool::default(), interest };
        policy.pool.put_back(context);
        Ok((policy, startup))
    }

    /// Loads the policy once more, as the process stands now: after privileges were dropped
    /// this shows whether the files it needs can still be read.
    pub fn check(&self) -> Result<(), LoadError> {
        while self.pool.take_spare().is_some() {}
        self.pool.put_back(Context::load(&self.source, self.signers.clone())?);
        Ok(())
    }

    /// Calls the handler of `event`; the state survives only a call without error.
    fn call<A: IntoLuaMulti, R>(
        &self,
        event: Event,
        arguments: impl FnOnce(&mlua::Lua) -> mlua::Result<A>,
        result: impl FnOnce(&mlua::Lua, Value) -> mlua::Result<R>,
    ) -> Result<R, PolicyError> {
        let context = self.check_out(event)?;
        let result = self.call_in(&context, event, arguments, result)?;
        self.pool.put_back(context);
        Ok(result)
    }

    fn check_out(&self, event: Event) -> Result<Context, PolicyError> {
        let loaded = self.pool.check_out(|| Context::load(&self.source, self.signers.clone()));
        loaded.map_err(|e| PolicyError::Script { event: event.name(), text: e.to_string() })
    }

    fn call_in<A: IntoLuaMulti, R>(
        &self,
        context: &Context,
        event: Event,
        arguments: impl FnOnce(&mlua::Lua) -> mlua::Result<A>,
        result: impl FnOnce(&mlua::Lua, Value) -> mlua::Result<R>,
    ) -> Result<R, PolicyError> {
        let name = event.name();
        let fail = |e: mlua::Error| to_policy_error(name, &e);
        let handler = context.handler(name).ok_or_else(|| PolicyError::Script {
            event: name,
            text: "the handler is gone: registration depends on something that changed".to_owned(),
        })?;
        context.enter(name).map_err(fail)?;
        let arguments = arguments(&context.lua).map_err(fail)?;
        let returned = handler.call::<Value>(arguments).map_err(fail)?;
        result(&context.lua, returned).map_err(fail)
    }

    /// Calls a handler whose return value does not matter.
    fn notify<A: IntoLuaMulti>(
        &self,
        event: Event,
        arguments: impl FnOnce(&mlua::Lua) -> mlua::Result<A>,
    ) -> Result<(), PolicyError> {
        self.call(event, arguments, |_, _| Ok(()))
    }

    /// Lends a draft to a handler and takes it back.
    fn lend(&self, event: Event, draft: Draft, conn: ConnMeta) -> Result<Draft, PolicyError> {
        let mut lent = None;
        let lend = |lua: &mlua::Lua| {
            let userdata = lua.create_userdata(LuaMessage::lend(draft))?;
            Ok((lent.insert(userdata).clone(), LuaConnMeta(conn)))
        };
        // Taken back while the state still lives; after an error draft and state go together.
        let context = self.check_out(event)?;
        self.call_in(&context, event, lend, |_, _| Ok(()))?;
        let back = lent.and_then(|userdata| userdata.borrow_mut::<LuaMessage>().ok()?.take_back());
        self.pool.put_back(context);
        back.ok_or_else(|| PolicyError::Script { event: event.name(), text: "the message did not come back".to_owned() })
    }

    /// Asks a handler for an object made by one of the `kumo.make_*` constructors.
    fn object<T: Clone + Default + 'static, A: IntoLuaMulti>(
        &self,
        event: Event,
        made_by: &'static str,
        arguments: A,
    ) -> Result<Option<T>, PolicyError>
    where
        ConfigObject<T>: mlua::UserData,
    {
        self.call(event, |_| Ok(arguments), |_, value| match &value {
            Value::Nil => Ok(None),
            Value::UserData(data) if data.is::<ConfigObject<T>>() => Ok(Some(data.borrow::<ConfigObject<T>>()?.0.clone())),
            other => Err(mlua::Error::runtime(format!("expected the result of {made_by}, found {}", other.type_name()))),
        })
    }
}

impl Policy for LuaPolicy {
    fn interest(&self) -> Interest {
        self.interest
    }

    fn smtp_server_connection_accepted(&self, conn: ConnMeta) -> Answer<'_, ()> {
        done(self.notify(Event::ConnectionAccepted, |_| Ok(LuaConnMeta(conn))))
    }

    fn smtp_server_ehlo(
        &self,
        domain: String,
        conn: ConnMeta,
        extensions: Option<Vec<String>>,
    ) -> Answer<'_, Option<Vec<String>>> {
        let arguments = |_: &mlua::Lua| Ok((domain, LuaConnMeta(conn), extensions));
        done(self.call(Event::Ehlo, arguments, |lua, value| Option::<Vec<String>>::from_lua_multi(mlua::MultiValue::from_iter([value]), lua)))
    }

    fn smtp_server_auth_plain(
        &self,
        authz: String,
        authc: String,
        password: String,
        conn: ConnMeta,
    ) -> Answer<'_, Option<AuthIdentity>> {
        let ids = AuthIdentity { authz_id: authz.clone(), authn_id: authc.clone() };
        let arguments = |_: &mlua::Lua| Ok((authz, authc, password, LuaConnMeta(conn)));
        done(self.call(Event::AuthPlain, arguments, |lua, value| auth_result(lua, value, ids)))
    }

    fn smtp_server_mail_from(&self, sender: ReversePath, conn: ConnMeta) -> Answer<'_, ()> {
        done(self.notify(Event::MailFrom, |_| Ok((LuaAddress(sender.0), LuaConnMeta(conn)))))
    }

    fn smtp_server_rcpt_to(&self, recipient: Mailbox, conn: ConnMeta) -> Answer<'_, ()> {
        done(self.notify(Event::RcptTo, |_| Ok((LuaAddress(Some(recipient)), LuaConnMeta(conn)))))
    }

    fn smtp_server_data(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Draft> {
        done(self.lend(Event::Data, draft, conn))
    }

    fn smtp_server_message_received(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Draft> {
        done(self.lend(Event::MessageReceived, draft, conn))
    }

    fn get_listener_domain(
        &self,
        domain: String,
        listener: SocketAddr,
        conn: ConnMeta,
    ) -> Answer<'_, Option<ListenerDomain>> {
        let arguments = (domain, listener.to_string(), LuaConnMeta(conn));
        done(self.object(Event::ListenerDomain, "kumo.make_listener_domain", arguments))
    }

    fn get_queue_config(&self, parts: QueueParts) -> Answer<'_, QueueConfig> {
        let arguments = (parts.domain, parts.tenant, parts.campaign, parts.routing_domain);
        done(self.object(Event::QueueConfig, "kumo.make_queue_config", arguments).map(Option::unwrap_or_default))
    }

    fn get_egress_pool(&self, name: String) -> Answer<'_, EgressPool> {
        let pool = self.object(Event::EgressPool, "kumo.make_egress_pool", name.clone());
        done(required(Event::EgressPool, name, pool))
    }

    fn get_egress_source(&self, name: String) -> Answer<'_, EgressSource> {
        let source = self.object(Event::EgressSource, "kumo.make_egress_source", name.clone());
        done(required(Event::EgressSource, name, source))
    }

    fn get_egress_path_config(&self, routing_domain: String, source: String, site: String) -> Answer<'_, EgressPath> {
        let arguments = (routing_domain, source, site);
        done(self.object(Event::EgressPathConfig, "kumo.make_egress_path", arguments).map(Option::unwrap_or_default))
    }
}

fn done<'a, T: Send + 'a>(result: Result<T, PolicyError>) -> Answer<'a, T> {
    Box::pin(std::future::ready(result))
}

fn required<T>(event: Event, name: String, answer: Result<Option<T>, PolicyError>) -> Result<T, PolicyError> {
    let missing = || PolicyError::Script { event: event.name(), text: format!("the handler returned nothing for `{name}`") };
    answer?.ok_or_else(missing)
}

/// `true`, `false` or an AuthInfo table whose first identity counts for both ids.
fn auth_result(lua: &mlua::Lua, value: Value, ids: AuthIdentity) -> mlua::Result<Option<AuthIdentity>> {
    match value {
        Value::Boolean(valid) => Ok(valid.then_some(ids)),
        Value::Nil => Ok(None),
        table @ Value::Table(_) => {
            let json = convert::to_json(lua, table)?;
            let identity = json.pointer("/identities/0/identity").and_then(serde_json::Value::as_str);
            let named = identity.map(|id| AuthIdentity { authz_id: id.to_owned(), authn_id: id.to_owned() });
            named.map(Some).ok_or_else(|| mlua::Error::runtime("AuthInfo: expected at least one entry in identities"))
        }
        other => Err(mlua::Error::runtime(format!("expected a boolean or AuthInfo, found {}", other.type_name()))),
    }
}
