//! The events of the `Policy` trait, answered by the script's handlers.
//!
//! One method an event: its arguments in KumoMTA's order, and how its return value is read.
//! An event without a handler is answered as KumoMTA answers it.

use crate::convert;
use crate::disposition::DISPOSITION;
use crate::lua_policy::{LuaPolicy, unexpected};
use crate::types::acl::LuaAcl;
use crate::types::address::LuaAddress;
use crate::types::config_object::ConfigObject;
use crate::types::conn_meta::LuaConnMeta;
use crate::types::shaping::LuaShaping;
use crate::types::time_delta::LuaTimeDelta;
use config::{EgressPath, EgressPool, EgressSource, FromTable, ListenerDomain, ListenerOverlay, QueueConfig};
use message::Draft;
use mlua::{FromLua, Lua, Value};
use policy::{
    AccessControlList, Answer, AuthIdentity, AuthInfo, Check, ConnMeta, Courier, Event, Interest, Policy, PolicyCounts,
    PolicyError, Program, QueueParts, Requeue, Rewritten, Split,
};
use serde_json::Value as Json;
use shaping::Shaping;
use smtp_wire::{Mailbox, ReversePath};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

impl Policy for LuaPolicy {
    fn waits_for_states(&self) -> u64 {
        self.pool.lock_waits()
    }

    fn counts(&self) -> PolicyCounts {
        self.counted()
    }

    fn interest(&self) -> Interest {
        self.interest.now()
    }

    fn reload(&self, check: &mut Check<'_>) -> Result<(), PolicyError> {
        self.read_again(check)
            .map_err(|error| PolicyError::Script { event: "bump_config_epoch", text: error.to_string() })
    }

    fn end_idle(&self) {
        self.pool.end_old();
    }

    fn as_it_stands(&self) -> Option<Arc<dyn Policy>> {
        Some(Arc::new(self.snapshot()))
    }

    fn serves_in(&self, program: Box<dyn Program>) {
        self.set_program(program);
    }

    fn smtp_server_connection_accepted(&self, conn: ConnMeta) -> Answer<'_, ()> {
        Box::pin(self.notify(Event::ConnectionAccepted, LuaConnMeta(conn)))
    }

    fn smtp_server_ehlo(
        &self,
        domain: String,
        conn: ConnMeta,
        extensions: Option<Vec<String>>,
    ) -> Answer<'_, Option<Vec<String>>> {
        if !self.interest.has(Event::Ehlo) {
            return done(Ok(None));
        }
        Box::pin(self.call(Event::Ehlo, |_| Ok((domain, LuaConnMeta(conn), extensions)), ehlo_result))
    }

    fn smtp_server_auth_plain(
        &self,
        authz: String,
        authc: String,
        password: String,
        conn: ConnMeta,
    ) -> Answer<'_, Option<AuthIdentity>> {
        if !self.interest.has(Event::AuthPlain) {
            return done(Ok(None));
        }
        let info = AuthInfo::by_smtp(&authz, &authc);
        let ids = AuthIdentity { authz_id: authz.clone(), authn_id: authc.clone(), info };
        let arguments = (authz, authc, password, LuaConnMeta(conn));
        Box::pin(self.call(Event::AuthPlain, |_| Ok(arguments), |lua, value| auth_result(lua, value, ids)))
    }

    fn smtp_server_mail_from(&self, sender: ReversePath, conn: ConnMeta) -> Answer<'_, ()> {
        Box::pin(self.notify(Event::MailFrom, (LuaAddress(sender.0), LuaConnMeta(conn))))
    }

    fn smtp_server_rcpt_to(&self, recipient: Mailbox, conn: ConnMeta) -> Answer<'_, ()> {
        Box::pin(self.notify(Event::RcptTo, (LuaAddress(Some(recipient)), LuaConnMeta(conn))))
    }

    fn smtp_server_data(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::Data, draft, |_| Ok(LuaConnMeta(conn))))
    }

    fn smtp_server_message_received(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::MessageReceived, draft, |_| Ok(LuaConnMeta(conn))))
    }

    fn smtp_server_get_dynamic_parameters(
        &self,
        listener: SocketAddr,
        conn: ConnMeta,
    ) -> Answer<'_, Option<ListenerOverlay>> {
        if !self.interest.has(Event::DynamicParameters) {
            return done(Ok(None));
        }
        let arguments = (listener.to_string(), LuaConnMeta(conn));
        Box::pin(self.call(Event::DynamicParameters, |_| Ok(arguments), overlay_result))
    }

    fn smtp_server_split_transaction(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Split> {
        if !self.interest.has(Event::SplitTransaction) {
            return done(Ok((draft, None)));
        }
        let arguments = |_: &Lua| Ok(LuaConnMeta(conn));
        Box::pin(self.lend_for(Event::SplitTransaction, draft, arguments, split_result))
    }

    fn smtp_server_message_deferred_inject(&self, draft: Draft, conn: ConnMeta) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::MessageDeferredInject, draft, |_| Ok(LuaConnMeta(conn))))
    }

    fn smtp_server_rewrite_response(
        &self,
        status: u16,
        response: String,
        command: Option<String>,
        conn: ConnMeta,
    ) -> Answer<'_, Rewritten> {
        if !self.interest.has(Event::RewriteResponse) {
            return done(Ok(Rewritten::default()));
        }
        let arguments = (status, response, command, LuaConnMeta(conn));
        Box::pin(self.call_for_two(Event::RewriteResponse, arguments, rewritten_result))
    }

    fn get_listener_domain(
        &self,
        domain: String,
        listener: SocketAddr,
        conn: ConnMeta,
    ) -> Answer<'_, Option<ListenerDomain>> {
        let arguments = (domain, listener.to_string(), LuaConnMeta(conn));
        Box::pin(self.object(Event::ListenerDomain, "kumo.make_listener_domain", arguments))
    }

    fn get_queue_config(&self, parts: QueueParts) -> Answer<'_, QueueConfig> {
        let arguments = (parts.domain, parts.tenant, parts.campaign, parts.routing_domain);
        self.or_default(Event::QueueConfig, "kumo.make_queue_config", arguments)
    }

    fn get_egress_pool(&self, name: String) -> Answer<'_, EgressPool> {
        self.required(Event::EgressPool, "kumo.make_egress_pool", name)
    }

    fn get_egress_source(&self, name: String) -> Answer<'_, EgressSource> {
        self.required(Event::EgressSource, "kumo.make_egress_source", name)
    }

    fn get_egress_path_config(&self, routing_domain: String, source: String, site: String) -> Answer<'_, EgressPath> {
        self.or_default(Event::EgressPathConfig, "kumo.make_egress_path", (routing_domain, source, site))
    }

    fn throttle_insert_ready_queue(&self, draft: Draft) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::ThrottleInsertReadyQueue, draft, |_| Ok(())))
    }

    fn requeue_message(&self, draft: Draft, about: Requeue) -> Answer<'_, Draft> {
        let Requeue { response, context, increment_attempts, delay } = about;
        let about = (response, context, increment_attempts, delay.map(LuaTimeDelta::from));
        Box::pin(self.lend(Event::RequeueMessage, draft, |_| Ok(about)))
    }

    fn rebind_message(&self, draft: Draft, data: BTreeMap<String, String>) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::RebindMessage, draft, |_| Ok(data)))
    }

    fn xfer_message_received(&self, draft: Draft, auth: AuthInfo) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::XferMessageReceived, draft, move |lua| auth_table(lua, &auth)))
    }

    fn smtp_client_rewrite_delivery_status(&self, response: String, parts: QueueParts) -> Answer<'_, Option<u16>> {
        if !self.interest.has(Event::RewriteDeliveryStatus) {
            return done(Ok(None));
        }
        let routing_domain = parts.routing_domain.unwrap_or_else(|| parts.domain.clone());
        let arguments = (response, parts.domain, parts.tenant, parts.campaign, routing_domain);
        Box::pin(self.call(Event::RewriteDeliveryStatus, |_| Ok(arguments), status_result))
    }

    fn run_task(&self, event: String, arguments: Vec<Json>) -> Answer<'_, ()> {
        Box::pin(self.perform(event, arguments))
    }

    fn deliver_by_missed(&self, draft: Draft) -> Answer<'_, ()> {
        Box::pin(async move { self.lend(Event::DeliverByMissed, draft, |_| Ok(())).await.map(|_| ()) })
    }

    fn should_enqueue_log_record(&self, draft: Draft, hook: String) -> Answer<'_, Option<Draft>> {
        if !self.interest.has(Event::ShouldEnqueueLogRecord) {
            return done(Ok(None));
        }
        Box::pin(async move {
            let wants = |_: &Lua, value: Value| is_wanted(&value);
            let (draft, wanted) = self.lend_for(Event::ShouldEnqueueLogRecord, draft, |_| Ok(hook), wants).await?;
            Ok(wanted.then_some(draft))
        })
    }

    fn filter_log_record(&self, event: String, draft: Draft) -> Answer<'_, bool> {
        Box::pin(self.pass_record(event, draft))
    }

    fn http_message_generated(&self, draft: Draft, auth: AuthInfo) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::HttpMessageGenerated, draft, move |lua| auth_table(lua, &auth)))
    }

    fn http_server_validate_auth_basic(&self, user: String, password: Option<String>) -> Answer<'_, Option<AuthInfo>> {
        let event = Event::ValidateAuthBasic;
        if !self.interest.has(event) {
            return done(Ok(None));
        }
        let valid = AuthInfo::by_password(&user);
        let read = move |lua: &Lua, value: Value| validity(lua, event, &value, valid);
        Box::pin(self.call(event, |_| Ok((user, password)), read))
    }

    fn http_server_validate_auth_bearer(&self, token: String) -> Answer<'_, Option<AuthInfo>> {
        let event = Event::ValidateAuthBearer;
        if !self.interest.has(event) {
            return done(Ok(None));
        }
        let read = move |lua: &Lua, value: Value| validity(lua, event, &value, AuthInfo::by_token());
        Box::pin(self.call(event, |_| Ok(token), read))
    }

    fn get_acl_definition(&self, resource: String) -> Answer<'_, Option<Arc<AccessControlList>>> {
        Box::pin(self.acl_of(resource))
    }

    fn spool_message_enumerated(&self, draft: Draft) -> Answer<'_, Draft> {
        Box::pin(self.lend(Event::SpoolMessageEnumerated, draft, |_| Ok(())))
    }

    fn shutdown_logging(&self) -> Answer<'_, ()> {
        Box::pin(self.notify(Event::ShutdownLogging, ()))
    }

    fn log_disposition(&self, hook: &str, draft: Draft, record: Json) -> Answer<'_, ()> {
        Box::pin(self.tell_disposition(format!("{DISPOSITION}{hook}"), draft, record))
    }

    fn tsa_load_shaping_data(&self) -> Answer<'_, Arc<Shaping>> {
        if !self.interest.has(Event::TsaLoadShapingData) {
            let text = "event tsa_load_shaping_data has not been registered".to_owned();
            return done(Err(PolicyError::Script { event: Event::TsaLoadShapingData.name(), text }));
        }
        Box::pin(self.call(Event::TsaLoadShapingData, |_| Ok(()), shaping_result))
    }

    fn construct_courier(&self, constructor: String, parts: QueueParts) -> Answer<'_, Box<dyn Courier>> {
        Box::pin(self.construct(constructor, parts))
    }
}

impl LuaPolicy {
    /// Pools and sources have no default: naming one is a promise that a handler knows it.
    fn required<T>(&self, event: Event, made_by: &'static str, name: String) -> Answer<'_, T>
    where
        T: Clone + Send + Sync + 'static,
        ConfigObject<T>: mlua::UserData,
    {
        Box::pin(async move {
            let text = || match self.interest.has(event) {
                true => format!("the handler returned nothing for `{name}`"),
                false => format!("event {} has not been registered (asked for `{name}`)", event.name()),
            };
            let answer = self.object(event, made_by, name.clone()).await?;
            answer.ok_or_else(|| PolicyError::Script { event: event.name(), text: text() })
        })
    }

    /// Queues and paths have defaults.
    fn or_default<'a, T, A>(&'a self, event: Event, made_by: &'static str, arguments: A) -> Answer<'a, T>
    where
        T: Clone + Default + Send + Sync + 'static,
        A: mlua::IntoLuaMulti + Clone + Send + 'a,
        ConfigObject<T>: mlua::UserData,
    {
        Box::pin(async move { self.object(event, made_by, arguments).await.map(Option::unwrap_or_default) })
    }
}

fn done<'a, T: Send + 'a>(result: Result<T, PolicyError>) -> Answer<'a, T> {
    Box::pin(std::future::ready(result))
}

/// Options of a listener that are to count for a session; nil is none.
fn overlay_result(lua: &Lua, value: Value) -> mlua::Result<Option<ListenerOverlay>> {
    match &value {
        Value::Nil => Ok(None),
        Value::Table(_) | Value::UserData(_) => {
            let json = convert::to_json(lua, &value)?;
            let overlay = ListenerOverlay::from_table(Event::DynamicParameters.name(), json);
            overlay.map(Some).map_err(|error| mlua::Error::runtime(error.to_string()))
        }
        other => Err(unexpected(Event::DynamicParameters, other, "a table of listener options or nil")),
    }
}

/// Lists of recipients, as a list or as the values of a table; nil is for the listener to say.
fn split_result(_: &Lua, value: Value) -> mlua::Result<Option<Vec<Vec<Mailbox>>>> {
    let expected = "a list of lists of addresses or nil";
    let wrong = |found: &Value| unexpected(Event::SplitTransaction, found, expected);
    let Value::Table(batches) = &value else {
        return if value.is_nil() { Ok(None) } else { Err(wrong(&value)) };
    };
    let mut split = Vec::new();
    for batch in batches.pairs::<Value, Value>() {
        let batch = batch?.1;
        let list = batch.as_table().ok_or_else(|| wrong(&batch))?;
        let mut recipients = Vec::with_capacity(list.raw_len());
        for recipient in list.sequence_values::<Value>() {
            let address = LuaAddress::read(Event::SplitTransaction.name(), &recipient?)?;
            let missing =
                || mlua::Error::runtime("smtp_server_split_transaction returned the null address as a recipient");
            recipients.push(address.0.ok_or_else(missing)?);
        }
        split.push(recipients);
    }
    Ok(Some(split))
}

/// A status and a text; nil leaves either as it was.
fn rewritten_result(lua: &Lua, status: Value, response: Value) -> mlua::Result<Rewritten> {
    let status = status_of(Event::RewriteResponse, &status)?;
    let response = match &response {
        Value::Nil => None,
        Value::String(_) => Some(String::from_lua(response, lua)?),
        other => return Err(unexpected(Event::RewriteResponse, other, "a status and a text, or nil")),
    };
    Ok(Rewritten { status, response })
}

/// A status, or nil for that of the server.
fn status_result(_: &Lua, value: Value) -> mlua::Result<Option<u16>> {
    status_of(Event::RewriteDeliveryStatus, &value)
}

fn status_of(event: Event, value: &Value) -> mlua::Result<Option<u16>> {
    match value {
        Value::Nil => Ok(None),
        Value::Integer(code @ 200..=599) => Ok(u16::try_from(*code).ok()),
        Value::Integer(code) => {
            Err(mlua::Error::runtime(format!("returned {code}: expected a status from 200 to 599")))
        }
        other => Err(unexpected(event, other, "a status or nil")),
    }
}

/// The result of `kumo.shaping.load`.
fn shaping_result(_: &Lua, value: Value) -> mlua::Result<Arc<Shaping>> {
    match value.as_userdata().and_then(|data| data.borrow::<LuaShaping>().ok()) {
        Some(loaded) => Ok(loaded.0.clone()),
        None => Err(unexpected(Event::TsaLoadShapingData, &value, "the result of kumo.shaping.load")),
    }
}

/// Whether a record is to become a message; nil is no.
fn is_wanted(value: &Value) -> mlua::Result<bool> {
    match value {
        Value::Boolean(wanted) => Ok(*wanted),
        Value::Nil => Ok(false),
        other => Err(unexpected(Event::ShouldEnqueueLogRecord, other, "a boolean or nil")),
    }
}

fn ehlo_result(lua: &Lua, value: Value) -> mlua::Result<Option<Vec<String>>> {
    let expected = "a list of strings or nil";
    match &value {
        Value::Nil => Ok(None),
        Value::Table(_) => {
            Vec::from_lua(value.clone(), lua).map(Some).map_err(|_| unexpected(Event::Ehlo, &value, expected))
        }
        Value::UserData(_) => {
            let list = serde_json::from_value(convert::to_json(lua, &value)?);
            list.map(Some).map_err(|_| unexpected(Event::Ehlo, &value, expected))
        }
        other => Err(unexpected(Event::Ehlo, other, expected)),
    }
}

impl LuaPolicy {
    /// The rules of a resource: what handlers said of it lately, what they say now, or what is built in.
    async fn acl_of(&self, resource: String) -> Result<Option<Arc<AccessControlList>>, PolicyError> {
        let event = Event::AclDefinition;
        let acls = &self.shared.acls;
        let said = match self.interest.has(event).then(|| acls.recall(&resource)) {
            None => None,
            Some(Ok(said)) => said,
            Some(Err(reading)) => {
                let asked = resource.clone();
                let said = self.call(event, |_| Ok(asked), |_, value| acl(&value)).await?;
                acls.note(reading, resource.clone(), said.clone());
                said
            }
        };
        Ok(said.or_else(|| acls.falls_back().then(|| access::built_in(&resource).map(Arc::new)).flatten()))
    }
}

/// A list of rules, or nothing.
fn acl(value: &Value) -> mlua::Result<Option<Arc<AccessControlList>>> {
    match value {
        Value::Nil => Ok(None),
        Value::UserData(data) if data.is::<LuaAcl>() => Ok(Some(data.borrow::<LuaAcl>()?.0.clone())),
        other => Err(unexpected(Event::AclDefinition, other, "the result of kumo.aaa.make_access_control_list or nil")),
    }
}

/// Who somebody is, as scripts see it.
fn auth_table(lua: &Lua, auth: &AuthInfo) -> mlua::Result<Value> {
    let json = serde_json::to_value(auth).map_err(mlua::Error::external)?;
    convert::to_lua(lua, &json)
}

/// `true`, `false` or an AuthInfo table of who it is; what is not said is wrong.
fn validity(lua: &Lua, event: Event, value: &Value, valid: AuthInfo) -> mlua::Result<Option<AuthInfo>> {
    match value {
        Value::Boolean(is_valid) => Ok(is_valid.then_some(valid)),
        Value::Nil => Ok(None),
        Value::Table(_) | Value::UserData(_) => {
            let json = convert::to_json(lua, value)?;
            AuthInfo::from_table("AuthInfo", json).map(Some).map_err(|error| mlua::Error::runtime(error.to_string()))
        }
        other => Err(unexpected(event, other, "a boolean or AuthInfo")),
    }
}

/// `true`, `false` or an AuthInfo table.
fn auth_result(lua: &Lua, value: Value, ids: AuthIdentity) -> mlua::Result<Option<AuthIdentity>> {
    match value {
        Value::Boolean(valid) => Ok(valid.then_some(ids)),
        Value::Nil => Ok(None),
        table @ (Value::Table(_) | Value::UserData(_)) => auth_identity(convert::to_json(lua, &table)?).map(Some),
        other => Err(unexpected(Event::AuthPlain, &other, "a boolean or AuthInfo")),
    }
}

/// The identities are told apart by their context; without one the first counts for both (KumoMTA behaviour).
fn auth_identity(json: Json) -> mlua::Result<AuthIdentity> {
    let info = AuthInfo::from_table("AuthInfo", json).map_err(|error| mlua::Error::runtime(error.to_string()))?;
    let expected = "AuthInfo: expected at least one entry in identities";
    let first = info.identities.first().ok_or_else(|| mlua::Error::runtime(expected))?;
    let of =
        |context: &str| info.identities.iter().find(|one| one.context == context).unwrap_or(first).identity.clone();
    let (authz_id, authn_id) = (of("SmtpAuthPlainAuthorization"), of("SmtpAuthPlainAuthentication"));
    Ok(AuthIdentity { authz_id, authn_id, info })
}
