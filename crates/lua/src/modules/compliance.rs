//! `kumo.compliance`: a message held against the rules of large providers of mailboxes, and what becomes of it.
//!
//! The rules are those of the compliance crate; DNS is asked through policy's resolvers, while the program serves. What a message
//! breaks is a finding, never an error; errors are of calls that cannot be answered, and the refusal that policy asked for.

use crate::api::Proof::{Example, Test};
use crate::api::{Module, function};
use crate::context::Host;
use crate::convert;
use crate::error::Rejection;
use crate::types::message::LuaMessage;
use crate::types::message_checks::{CHECK_MAX, asked, unix_secs};
use crate::waiting::wait;
use compliance::{Demands, Finding, Report, Rule, Subject};
use config::{ComplianceMode, ComplianceOptions, nearest};
use mime::ValueForm;
use mlua::{Lua, UserDataRefMut, Value};
use policy::Disconnect;
use serde_json::{Value as Json, json};

/// The module.
pub(crate) const COMPLIANCE: Module = Module {
    name: "kumo.compliance",
    doc: "What large providers of mailboxes demand of messages and their senders ([compliance.md](../compliance.md)); an addition.",
    functions: &[&[
        function!(
            waits
            "kumo.compliance",
            "check",
            "(msg, {options}) -> {findings, undecided}",
            "Holds a message against the rules, counts what it breaks, and does what `mode` says. `findings` are tables `{rule, what, fix, \
             providers, demanded}`; `undecided` are `{rule, why}`, of rules that DNS left open: nobody is refused for those. What is found is \
             also in the metadata `compliance`: the names of the rules, joined by `, `.",
            Test("crates/lua/tests/scripts/compliance.rs::a_message_that_breaks_rules_is_told_so"),
            check
        ),
        function!(
            "kumo.compliance",
            "check_options",
            "({options})",
            "An error when these are no options of `check`; for who reads them from a file.",
            Example(
                "kumo.compliance.check_options { mode = 'Reject', ignore = { 'ptr' }, sources = { '192.0.2.1' } } \
                 local _, why = pcall(kumo.compliance.check_options, { ignore = { 'ptrs' } }) \
                 assert(tostring(why):find('did you mean `ptr`?', 1, true), why)"
            ),
            |_, options: Value| demands(&convert::options(CHECK_OPTIONS, &options)?).map(|_| ())
        ),
        function!(
            "kumo.compliance",
            "rules",
            "() -> list",
            "The rules, as tables `{rule, fix, providers, code}`.",
            Example(
                "local rules = kumo.compliance.rules() assert(#rules > 10 and rules[1].rule == 'from_single' and rules[1].code == '5.7.1') \
                 assert(rules[1].providers[1] == 'gmail' and #rules[1].fix > 0)"
            ),
            |lua, ()| {
                let rules = Rule::ALL.iter().map(|rule| {
                    json!({"rule": rule.name(), "fix": rule.fix(), "providers": providers(*rule), "code": rule.code()})
                });
                convert::to_lua(lua, &Json::Array(rules.collect()))
            }
        ),
    ]],
    types: &[],
};

async fn check(lua: Lua, (mut message, options): (UserDataRefMut<LuaMessage>, Value)) -> mlua::Result<Value> {
    let options: ComplianceOptions = convert::options(CHECK, &options)?;
    let demands = demands(&options)?;
    if options.mode == ComplianceMode::Off {
        message.draft()?;
        return found(&lua, &Report::default());
    }
    let resolver = asked(&lua, CHECK, options.resolver.as_deref())?;
    let draft = message.draft()?;
    let body = draft.body();
    let sender = draft.envelope.sender.as_str().to_owned();
    let subject = Subject { headers: draft.headers(), body: &body, sender: &sender, now_unix_secs: unix_secs() };
    let report = wait(&lua, CHECK, CHECK_MAX, compliance::check(&resolver, &subject, &demands)).await?;
    act(&lua, &mut message, &options, &report)?;
    found(&lua, &report)
}

fn demands(options: &ComplianceOptions) -> mlua::Result<Demands> {
    let rule = |name: &String| {
        Rule::named(name).ok_or_else(|| {
            let near = nearest(name, Rule::NAMES);
            let meant = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
            let known = Rule::NAMES.join(", ");
            mlua::Error::runtime(format!("{CHECK}: ignore: no rule `{name}`: expected one of {known}{meant}"))
        })
    };
    Ok(Demands {
        is_bulk: options.bulk,
        sources: options.sources.clone(),
        ignored: options.ignore.iter().map(rule).collect::<mlua::Result<_>>()?,
        bytes_max: options.max_message_size,
    })
}

/// Marks, counts, and refuses.
fn act(lua: &Lua, message: &mut LuaMessage, options: &ComplianceOptions, report: &Report) -> mlua::Result<()> {
    let broken: Vec<&'static str> = report.broken().into_iter().map(Rule::name).collect();
    let draft = message.draft()?;
    let tenant = match &options.tenant {
        Some(tenant) => tenant.clone(),
        None => draft.meta.string("tenant").ok().flatten().unwrap_or_default().to_owned(),
    };
    let refused_for = report.worst().filter(|_| options.mode == ComplianceMode::Reject);
    let program = lua.app_data_ref::<Host>().map(|host| host.program.clone());
    if let Some(program) = program.as_ref().and_then(|program| program.program.get()) {
        program.held_to_rules(&tenant, &broken, refused_for.is_some());
    }
    if broken.is_empty() {
        return Ok(());
    }
    let names = broken.join(", ");
    draft.meta.set("compliance", names.as_str());
    match options.mode {
        ComplianceMode::Tag => {
            let (block, _) = draft.edit_headers();
            block.prepend(&options.header, names.as_bytes(), ValueForm::Raw).map_err(mlua::Error::external)
        }
        _ => {
            let what: Vec<String> = report.findings.iter().map(of_finding).collect();
            tracing::warn!(target: "compliance", "message {} of tenant `{tenant}`: {}", draft.id, what.join("; "));
            match refused_for {
                Some(finding) => Err(refusal(finding, &broken)),
                None => Ok(()),
            }
        }
    }
}

fn of_finding(finding: &Finding) -> String {
    format!("{}: {}", finding.rule.name(), finding.what)
}

/// The reply: which rule, what is wrong, what mends it, and which other rules are broken.
fn refusal(finding: &Finding, broken: &[&str]) -> mlua::Error {
    let rule = finding.rule;
    let what: String = finding.what.chars().take(REPLY_WHAT_CHARS_MAX).collect();
    let mut text = format!("{} {}: {what}; {}", rule.code(), rule.name(), rule.fix());
    let others: Vec<&str> = broken.iter().copied().filter(|name| *name != rule.name()).collect();
    if !others.is_empty() {
        text.push_str(&format!(" (also: {})", others.join(", ")));
    }
    // A file name in From is nobody's idea of a reply: only printable ASCII goes out.
    text = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect();
    mlua::Error::external(Rejection { code: 550, text, disconnect: Disconnect::If421 })
}

fn found(lua: &Lua, report: &Report) -> mlua::Result<Value> {
    let findings = report.findings.iter().map(|finding| {
        json!({
            "rule": finding.rule.name(),
            "what": finding.what,
            "fix": finding.rule.fix(),
            "providers": providers(finding.rule),
            "demanded": finding.is_demanded,
        })
    });
    let undecided = report.undecided.iter().map(|open| json!({"rule": open.rule.name(), "why": open.why}));
    let found = json!({"findings": findings.collect::<Vec<_>>(), "undecided": undecided.collect::<Vec<_>>()});
    convert::to_lua(lua, &found)
}

fn providers(rule: Rule) -> Vec<&'static str> {
    rule.providers().iter().map(|provider| provider.name()).collect()
}

const CHECK: &str = "kumo.compliance.check";
const CHECK_OPTIONS: &str = "kumo.compliance.check_options";

/// What of a finding goes into a reply, in characters: the reply has to fit its line.
const REPLY_WHAT_CHARS_MAX: usize = 160;
