//! `kumo.make_message`, `kumo.generate_rfc3464_message`, `kumo.inject_message`: messages that a script makes.
//!
//! Before the program serves, messages may be made and looked at; there is nobody to take them.

use crate::api::Proof::{Example, Test};
use crate::api::{Function, function};
use crate::context::{Host, Surroundings};
use crate::convert;
use crate::types::address::LuaAddress;
use crate::types::message::{LuaMessage, now, recipients};
use crate::types::message_checks;
use crate::waiting::wait;
use bounce::{Notice, Told, is_notified};
use clock::WallTime;
use config::{EnclosedMessage, NonDeliveryReport, TraceHeaders};
use message::{Draft, Envelope, IdGenerator, MessageId, Meta, TlsDemand};
use mime::{Enclosed, Typed};
use mlua::{BString, Lua, UserDataRefMut, Value};
use policy::Program;
use record::LogRecord;
use smtp_wire::command::Notify;
use smtp_wire::{Body, Mailbox, ReversePath};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The functions.
pub(crate) const FUNCTIONS: &[Function] = &[
    function!(
        "kumo",
        "make_message",
        "(sender, recipient, content) -> Message",
        "A message of the script, with a fresh id, in memory only. The recipient may be a list.",
        Test("crates/lua/tests/scripts/messages.rs::a_message_that_a_script_makes_is_injected_with_all_it_has"),
        make
    ),
    function!(
        "kumo",
        "generate_rfc3464_message",
        "(params, original or nil, log_record) -> Message or nil",
        "A report of non-delivery to the sender of a log record; nil when there is none to be sent. Params are those of `generate_rfc3464_message`.",
        Test("crates/lua/tests/scripts/messages.rs::reports_are_made_of_what_is_to_be_reported"),
        generate
    ),
    function!(
        waits
        "kumo",
        "inject_message",
        "(msg, deferred_spool = false)",
        "Hands a message the script made to the program, which has it on disk when this returns, or in memory only with `deferred_spool`.",
        Test("crates/lua/tests/scripts/messages.rs::a_message_that_a_script_makes_is_injected_with_all_it_has"),
        inject
    ),
    function!(
        "kumo",
        "apply_supplemental_trace_header",
        "(msg, trace_headers or nil)",
        "Prepends the supplemental trace header; options are those of `trace_headers` of a listener, the defaults without them.",
        Example(
            "msg:set_meta('tenant', 'acme') kumo.apply_supplemental_trace_header(msg, { header_name = 'X-Ref', include_meta_names = { 'tenant' } }) \
             local text = msg:get_first_named_header_value('X-Ref'):gsub('%s', '') \
             local fields = kumo.serde.json_parse(tostring(kumo.encode.base64_decode(text))) \
             assert(fields.tenant == 'acme' and fields.recipient == msg:recipient().email) \
             kumo.apply_supplemental_trace_header(msg) assert(msg:get_first_named_header_value('X-KumoRef')) \
             local _, why = pcall(kumo.apply_supplemental_trace_header, msg, { header = 'X' }) \
             assert(tostring(why):find('unknown field `header`', 1, true), why)"
        ),
        apply_supplemental
    ),
];

fn make(lua: &Lua, (sender, recipient, content): (Value, Value, BString)) -> mlua::Result<LuaMessage> {
    let sender = ReversePath(LuaAddress::read(MAKE, &sender)?.0);
    let recipients = recipients(MAKE, recipient)?;
    let content: Vec<u8> = content.into();
    new(lua, MAKE, Envelope { sender, recipients, dsn: None, tls: TlsDemand::Usual }, |_| content)
}

fn apply_supplemental(_: &Lua, (mut message, options): (UserDataRefMut<LuaMessage>, Value)) -> mlua::Result<()> {
    let options: TraceHeaders = match options {
        Value::Nil => TraceHeaders::default(),
        given => convert::options(SUPPLEMENTAL, &given)?,
    };
    if !options.supplemental_header {
        return Ok(());
    }
    let added = message.draft()?.add_supplemental_trace(&options.header_name, &options.include_meta_names);
    added.map_err(|e| refused(SUPPLEMENTAL, &e))
}

/// Gives the message to the program, which has it on disk before this returns, or in memory only if `deferred`.
async fn inject(lua: Lua, (mut message, deferred): (UserDataRefMut<LuaMessage>, Option<bool>)) -> mlua::Result<()> {
    let around = surroundings(&lua, INJECT)?;
    let program = program(&around, INJECT)?;
    let draft = message.inject().map_err(|e| refused(INJECT, &e))?;
    // Without an answer nobody knows: it may not be tried again.
    match wait(&lua, INJECT, INJECTION_MAX, program.inject(draft, deferred.unwrap_or(false))).await? {
        Ok(()) => {
            message.was_taken();
            Ok(())
        }
        Err(why) => {
            message.was_refused();
            Err(refused(INJECT, &why))
        }
    }
}

fn generate(
    lua: &Lua,
    (params, original, record): (Value, Option<UserDataRefMut<LuaMessage>>, Value),
) -> mlua::Result<Option<LuaMessage>> {
    let params: NonDeliveryReport = convert::options(GENERATE, &params)?;
    let record = convert::to_json(lua, &record).map_err(|e| refused(GENERATE, &format!("log record: {e}")))?;
    let record: LogRecord =
        serde_json::from_value(record).map_err(|e| refused(GENERATE, &format!("log record: {e}")))?;
    if !is_notified(&record, params.enable_bounce, params.enable_expiration) {
        return Ok(None);
    }
    let wrong = |e| refused(GENERATE, &format!("sender {:?} of the log record: {e}", record.sender));
    let recipients = vec![Mailbox::parse(&record.sender).map_err(wrong)?];
    let mut original = original;
    let original = original.as_mut().map(|message| Original::of(message)).transpose()?.unwrap_or_default();
    let told = original.told(&record);
    if told.is_empty() {
        return Ok(None);
    }
    let tls = original.report_tls();
    let notice = |id: &str| {
        Notice {
            record: &record,
            reporting_mta: &Typed::new(params.reporting_mta.mta_type.clone(), params.reporting_mta.name.clone()),
            recipients: told,
            envelope_id: original.envelope.as_ref().and_then(|e| e.dsn.as_ref()?.envid.as_deref()),
            enclosed: original.enclosed(params.include_original_message),
            unique: if params.stable_content { &record.id } else { id },
        }
        .to_bytes()
    };
    let envelope = Envelope { sender: ReversePath(None), recipients, dsn: None, tls };
    new(lua, GENERATE, envelope, notice).map(Some)
}

/// What a report takes from the message it is about.
#[derive(Default)]
struct Original {
    envelope: Option<Envelope>,
    tls: TlsDemand,
    head: Vec<u8>,
    body: Body,
}

impl Original {
    fn of(message: &mut LuaMessage) -> mlua::Result<Original> {
        let draft = message.draft()?;
        let tls = draft.tls_demand();
        Ok(Original { envelope: Some(draft.envelope.clone()), tls, head: draft.head(), body: draft.body() })
    }

    /// The record's recipients, without those about whom the sender does not want to hear (RFC 3461 section 4.1).
    fn told<'a>(&self, record: &'a LogRecord) -> Vec<Told<'a>> {
        record.recipient.0.iter().filter_map(|address| self.told_of(address)).collect()
    }

    fn told_of<'a>(&self, address: &'a str) -> Option<Told<'a>> {
        let wishes = self.envelope.as_ref().and_then(|envelope| {
            let number = envelope.recipients.iter().position(|recipient| recipient.as_str() == address)?;
            Some(envelope.dsn.as_ref()?.of(number))
        });
        let notify = wishes.and_then(|wishes| wishes.notify).unwrap_or(Notify::DEFAULT);
        let orcpt = wishes.and_then(|wishes| wishes.orcpt.as_ref());
        let original = orcpt.map(|orcpt| Typed::new(orcpt.address_type.as_str(), orcpt.address.as_str()));
        notify.failure.then_some(Told { address, original })
    }

    /// RFC 8689 section 5: the report wants the same protection.
    fn report_tls(&self) -> TlsDemand {
        if self.tls == TlsDemand::Required { TlsDemand::Required } else { TlsDemand::Usual }
    }

    fn enclosed(&self, wanted: EnclosedMessage) -> Enclosed<'_> {
        match wanted {
            _ if self.envelope.is_none() => Enclosed::Nothing,
            EnclosedMessage::No => Enclosed::Nothing,
            EnclosedMessage::FullContent if self.tls != TlsDemand::Required => {
                Enclosed::Message(&self.head, &self.body)
            }
            EnclosedMessage::HeadersOnly | EnclosedMessage::FullContent => Enclosed::Header(&self.head),
        }
    }
}

/// A message of the script's, due now.
fn new(
    lua: &Lua,
    function: &str,
    envelope: Envelope,
    content: impl FnOnce(&str) -> Vec<u8>,
) -> mlua::Result<LuaMessage> {
    let around = surroundings(lua, function)?;
    let due = WallTime::from_unix_micros(now().unix_micros());
    let id = match around.program.get() {
        Some(program) => program.message_id().ok_or_else(|| refused(function, &"the program ends"))?,
        None => id_for_trial(due),
    };
    let content = content(&id.to_string());
    new_of(lua, Draft::new(id, envelope, Meta::new(), content.into(), due))
}

/// For a message that no spool will have: a script of `--script` looks at it.
fn id_for_trial(now: WallTime) -> MessageId {
    let [high, low, node @ ..] = *Uuid::new_v4().as_bytes();
    let [node @ .., _, _, _, _, _, _, _, _] = node;
    IdGenerator::new(node, u16::from_be_bytes([high, low])).next(now)
}

/// A draft as a message of the script's.
pub(super) fn new_of(lua: &Lua, mut draft: Draft) -> mlua::Result<LuaMessage> {
    collect(lua, draft.size())?;
    message_checks::install(lua)?;
    Ok(LuaMessage::make(draft))
}

/// Lua does not see how large these are: what it has let go of is found in time.
fn collect(lua: &Lua, octets: usize) -> mlua::Result<()> {
    let is_much = lua.app_data_mut::<Host>().is_some_and(|mut host| {
        host.made_octets += octets;
        host.made_octets > MADE_OCTETS_MAX && std::mem::take(&mut host.made_octets) > 0
    });
    if is_much { lua.gc_collect() } else { Ok(()) }
}

pub(super) fn surroundings(lua: &Lua, function: &str) -> mlua::Result<Arc<Surroundings>> {
    let host = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    host.ok_or_else(|| refused(function, &"this state belongs to no policy"))
}

pub(super) fn program<'a>(around: &'a Surroundings, function: &str) -> mlua::Result<&'a dyn Program> {
    let program = around.program.get().map(AsRef::as_ref);
    program.ok_or_else(|| refused(function, &"it can be called while the program serves, not before"))
}

pub(super) fn refused(function: &str, why: &dyn std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(format!("{function}: {why}"))
}

const MAKE: &str = "kumo.make_message";
const SUPPLEMENTAL: &str = "kumo.apply_supplemental_trace_header";
const INJECT: &str = "kumo.inject_message";
const GENERATE: &str = "kumo.generate_rfc3464_message";
/// Octets of messages that a state makes between two collections.
const MADE_OCTETS_MAX: usize = 16 << 20;
/// Longest time an injection may take: a disk that is slower than this counts as not answering.
const INJECTION_MAX: Duration = Duration::from_secs(120);
