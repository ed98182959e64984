//! `msg:parse_rfc3464` and `msg:parse_rfc5965`: what a report says, as a table (KumoMTA's names).
//!
//! nil when the message is no such report; an error when it claims to be one and is not sound.

use crate::convert;
use crate::types::message::LuaMessage;
use mime::{DeliveryReport, FeedbackReport};
use mlua::{UserDataMethods, Value};

/// Adds the methods.
pub(crate) fn add_to<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("parse_rfc3464", |lua, this, ()| {
        let report = DeliveryReport::parse(&this.draft()?.data());
        match report.map_err(|e| mlua::Error::runtime(format!("msg:parse_rfc3464: {e}")))? {
            Some(report) => convert::to_lua(lua, &bounce::delivery_json(&report)),
            None => Ok(Value::Nil),
        }
    });
    methods.add_method_mut("parse_rfc5965", |lua, this, ()| {
        let report = FeedbackReport::parse(&this.draft()?.data());
        match report.map_err(|e| mlua::Error::runtime(format!("msg:parse_rfc5965: {e}")))? {
            Some(report) => convert::to_lua(lua, &bounce::feedback_json(report)),
            None => Ok(Value::Nil),
        }
    });
}
