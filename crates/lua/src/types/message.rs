//! `msg`: the message an event is about (KumoMTA's Message object).
//!
//! Holds the draft only while the handler runs. A script that keeps `msg` beyond its event
//! gets an error from every method, never another message's data. The methods about header
//! fields are in `message_headers.rs`, those that check who made it in `message_checks.rs`.

use crate::convert;
use crate::types::address::LuaAddress;
use crate::types::message_checks;
use crate::types::message_headers;
use crate::types::message_mime;
use crate::types::message_reports;
use crate::types::message_scheduling;
use crate::types::signer::LuaSigner;
use message::Draft;
use mlua::{AnyUserData, BString, IntoLua, Lua, MetaMethod, UserData, UserDataMethods, UserDataRef, Value};
use queue::QueueName;
use record::Timestamp;
use sender_auth::{BodyHashes, Scratch};
use smtp_wire::{Mailbox, ReversePath};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The draft, while it is lent, or one that the script made.
pub(crate) struct LuaMessage {
    draft: Option<Draft>,
    origin: Origin,
    /// Shared by all signatures of this body.
    hashes: BodyHashes,
}

/// Whose a message is.
#[derive(Clone, Copy)]
enum Origin {
    /// The program's, which wants it back.
    Lent,
    /// The script's.
    Made,
    /// It was the script's; what is left has no content.
    Injected,
}

impl LuaMessage {
    /// Lends a draft to a script.
    pub fn lend(lua: &Lua, draft: Draft) -> mlua::Result<AnyUserData> {
        message_checks::install(lua)?;
        lua.create_userdata(LuaMessage { draft: Some(draft), origin: Origin::Lent, hashes: BodyHashes::new() })
    }

    /// A draft that the script made.
    pub fn make(draft: Draft) -> LuaMessage {
        LuaMessage { draft: Some(draft), origin: Origin::Made, hashes: BodyHashes::new() }
    }

    /// One whose event has ended: without a draft.
    pub fn ended() -> LuaMessage {
        LuaMessage { draft: None, origin: Origin::Lent, hashes: BodyHashes::new() }
    }

    /// What is to be injected; why not, if it is not the script's or was injected before. Counts as injected from now on.
    pub fn inject(&mut self) -> Result<Draft, &'static str> {
        match (self.origin, &self.draft) {
            (Origin::Made, Some(draft)) => {
                self.origin = Origin::Injected;
                Ok(draft.clone())
            }
            (Origin::Made | Origin::Lent, _) => Err("the message is in a queue, or on its way there, already"),
            (Origin::Injected, _) => Err("the message was injected already"),
        }
    }

    /// The program has it, and its content with it.
    pub fn was_taken(&mut self) {
        self.draft.iter_mut().for_each(|draft| draft.set_data(bytes::Bytes::new()));
    }

    /// The program has refused it.
    pub fn was_refused(&mut self) {
        self.origin = Origin::Made;
    }

    /// Gives it another content.
    pub fn set_data(&mut self, data: Vec<u8>) -> mlua::Result<()> {
        self.draft()?.set_data(data.into());
        self.hashes = BodyHashes::new();
        Ok(())
    }

    /// Takes the draft back; `None` when that was done before.
    pub fn take_back(&mut self) -> Option<Draft> {
        self.draft.take()
    }

    /// The draft; an error once its event is over.
    pub fn draft(&mut self) -> mlua::Result<&mut Draft> {
        self.draft.as_mut().ok_or_else(|| mlua::Error::runtime("msg is used after its event has ended"))
    }
}

impl UserData for LuaMessage {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        identity(methods);
        envelope(methods);
        metadata(methods);
        message_scheduling::add_to(methods);
        content(methods);
        message_headers::add_to(methods);
        message_mime::add_to(methods);
        message_reports::add_to(methods);
        methods.add_method_mut("dkim_sign", |lua, this, signer: UserDataRef<LuaSigner>| dkim_sign(lua, this, &signer));
    }
}

fn identity<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_meta_method_mut(MetaMethod::ToString, |_, this, ()| Ok(format!("Message({})", this.draft()?.id)));
    methods.add_method_mut("id", |_, this, ()| Ok(this.draft()?.id.to_string()));
    methods.add_method_mut("queue_name", |_, this, ()| {
        let draft = this.draft()?;
        QueueName::text_for(&draft.envelope, &draft.meta).map_err(mlua::Error::external)
    });
    // Matters to listeners with `deferred_spool` only: everything else is synced before 250 anyway.
    methods.add_method_mut("set_force_sync", |_, this, force: bool| {
        this.draft()?.force_sync = force;
        Ok(())
    });
    // What a script does to a message counts when its handler returns, and is spooled and released then.
    methods.add_method_mut("save", |_, this, ()| this.draft().map(|_| ()));
    for name in ["shrink", "shrink_data"] {
        methods.add_method_mut(name, |_, this, ()| this.draft().map(|_| false));
    }
}

fn envelope<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("sender", |_, this, ()| Ok(LuaAddress::from(&this.draft()?.envelope.sender)));
    methods.add_method_mut("set_sender", |_, this, value: Value| {
        this.draft()?.envelope.sender = ReversePath(LuaAddress::read("msg:set_sender", &value)?.0);
        Ok(())
    });
    methods.add_method_mut("recipient", |lua, this, ()| match &this.draft()?.envelope.recipients[..] {
        [] => Ok(Value::Nil),
        [one] => LuaAddress(Some(one.clone())).into_lua(lua),
        many => list(many).into_lua(lua),
    });
    methods.add_method_mut("recipient_list", |_, this, ()| Ok(list(&this.draft()?.envelope.recipients)));
    methods.add_method_mut("set_recipient", |_, this, value: Value| {
        this.draft()?.envelope.set_recipients(recipients("msg:set_recipient", value)?);
        Ok(())
    });
}

fn metadata<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_meta", |lua, this, name: String| match this.draft()?.meta.get(&name) {
        Some(value) => convert::to_lua(lua, value),
        None => Ok(Value::Nil),
    });
    methods.add_method_mut("set_meta", |lua, this, (name, value): (String, Value)| {
        let value =
            convert::to_json(lua, &value).map_err(|e| mlua::Error::runtime(format!("msg:set_meta `{name}`: {e}")))?;
        this.draft()?.meta.set(name, value);
        Ok(())
    });
}

fn content<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("get_data", |lua, this, ()| lua.create_string(this.draft()?.data()));
    methods.add_method_mut("increment_num_attempts", |_, this, ()| {
        let draft = this.draft()?;
        draft.attempts = draft.attempts.saturating_add(1);
        Ok(())
    });
    methods.add_method_mut("set_data", |_, this, data: BString| {
        let data: Vec<u8> = data.into();
        this.set_data(data)
    });
}

fn dkim_sign(lua: &Lua, this: &mut LuaMessage, signer: &LuaSigner) -> mlua::Result<()> {
    let hashes = std::mem::take(&mut this.hashes);
    let draft = this.draft()?;
    let body = draft.body();
    let at = now().unix_seconds().unsigned_abs();
    let mut scratch =
        lua.app_data_mut::<Scratch>().ok_or_else(|| mlua::Error::runtime("this state belongs to no policy"))?;
    let begun = Instant::now();
    let made = signer.0.signer.sign(at, draft.headers(), &body, &hashes, &mut scratch);
    let field = made.map_err(mlua::Error::external)?;
    signer.0.times.sign.took(begun.elapsed());
    drop(scratch);
    if let Some(key) = &signer.0.public_half {
        message_checks::check_own(lua, draft, &body, &field, key)?;
    }
    draft.edit_headers().0.prepend_field(field).map_err(mlua::Error::external)?;
    this.hashes = hashes;
    Ok(())
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_unix_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

fn list(recipients: &[Mailbox]) -> Vec<LuaAddress> {
    recipients.iter().map(|r| LuaAddress(Some(r.clone()))).collect()
}

/// One address or a list. An empty list is refused: a message to nobody would be accepted and
/// lost; the way to drop one is the queue `null`.
pub(crate) fn recipients(function: &str, value: Value) -> mlua::Result<Vec<Mailbox>> {
    let values: Vec<Value> = match value {
        Value::Table(table) => table.sequence_values().collect::<mlua::Result<_>>()?,
        one => vec![one],
    };
    if values.is_empty() {
        return Err(mlua::Error::runtime(format!("{function}: an empty list: expected at least one address")));
    }
    let null = || mlua::Error::runtime(format!("{function}: the null address cannot be a recipient"));
    values.iter().map(|v| LuaAddress::read(function, v)?.0.ok_or_else(null)).collect()
}
