//! The methods of `msg` that look into its content: MIME parts, text put at its end, conformance.

use crate::convert;
use crate::types::message::LuaMessage;
use crate::types::mime_part::{LuaMimePart, seed, wall_now};
use mimepart::{
    AuthenticationResult, AuthenticationResults, CheckFixSettings, Conformance, FieldKind, FieldValue, MimePart,
    Outcome, append_text, check_fix,
};
use mlua::{UserDataMethods, Value};

/// Adds the methods.
pub(crate) fn add_to<M: UserDataMethods<LuaMessage>>(methods: &mut M) {
    methods.add_method_mut("parse_mime", |_, this, ()| Ok(LuaMimePart::whole(MimePart::parse(this.draft()?.data()))));
    for (name, is_html) in [("append_text_plain", false), ("append_text_html", true)] {
        methods.add_method_mut(name, move |_, this, text: String| {
            let appended = append_text(this.draft()?.data(), &text, is_html);
            let changed = appended.map_err(|e| mlua::Error::runtime(format!("msg:{name}: {e}")))?;
            changed.map_or(Ok(()), |data| this.set_data(data))
        });
    }
    methods.add_method_mut("add_authentication_results", |_, this, (server_id, results): (String, Value)| {
        let name = "msg:add_authentication_results";
        let results: Vec<AuthenticationResult> = convert::parsed(name, &results)?;
        let value = AuthenticationResults { serv_id: server_id, version: None, results };
        let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("{name}: {e}"));
        let value = FieldValue::AuthenticationResults(value);
        let written = FieldKind::AuthenticationResults.write(RESULTS_FIELD, &value);
        let (text, form) = written.map_err(|e| wrong(&e))?;
        let (block, _) = this.draft()?.edit_headers();
        block.prepend(RESULTS_FIELD, text.as_bytes(), form).map_err(|e| wrong(&e))
    });
    methods.add_method_mut(
        "check_fix_conformance",
        |_, this, (checks, fixes, settings): (String, String, Option<Value>)| {
            let wrong = |e: &dyn std::fmt::Display| mlua::Error::runtime(format!("msg:check_fix_conformance: {e}"));
            let [checks, fixes] =
                [("checks", checks), ("fixes", fixes)].map(|(field, flags)| match Conformance::parse(&flags) {
                    Ok(flags) => Ok(flags),
                    Err(error) => Err(wrong(&format!("{field}: {error}"))),
                });
            let settings: CheckFixSettings = match settings {
                None | Some(Value::Nil) => CheckFixSettings::default(),
                Some(settings) => convert::parsed("msg:check_fix_conformance", &settings)?,
            };
            check_and_fix(this, checks?, fixes?, &settings)
        },
    );
}

/// What is wrong, or nothing and the message is fixed; a fix that cannot be done is said the same way (KumoMTA behaviour).
fn check_and_fix(
    this: &mut LuaMessage,
    checks: Conformance,
    fixes: Conformance,
    settings: &CheckFixSettings,
) -> mlua::Result<Option<String>> {
    let data = this.draft()?.data();
    match check_fix(&data, checks, fixes, settings, wall_now(), seed()) {
        Ok(Outcome::Unchanged) => Ok(None),
        Ok(Outcome::Fixed(data)) => this.set_data(data).map(|()| None),
        Ok(issues @ Outcome::Issues(_)) => Ok(Some(issues.to_string())),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// RFC 8601.
const RESULTS_FIELD: &str = "Authentication-Results";
