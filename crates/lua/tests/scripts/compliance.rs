//! `kumo.compliance` and its helper: what becomes of a message that breaks rules, by mode and by tenant.

use crate::checks::run_on;
use crate::support::{assert_has, load_error};
use injection::Injection;
use message::{Draft, MessageId};
use policy::{Administered, AuthInfo, Injected, Program, Requested};
use std::sync::{Arc, Mutex};

/// All that the rules want but signatures; its sender is `sender@from.test`, which `192.0.2.5` may send for.
const MESSAGE: &str = "From: One <one@from.test>\r\nTo: a@x.test\r\nSubject: x\r\nDate: DATE\r\nMessage-ID: <1@from.test>\r\n\r\nbody\r\n";

/// A program that notes what is counted.
#[derive(Clone, Default)]
pub(crate) struct Counts(pub Arc<Mutex<Vec<String>>>);

impl Counts {
    fn note(&self, text: String) {
        self.0.lock().expect("no panic").push(text);
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Program for Counts {
    fn bump_config_epoch(&self) {}

    fn held_to_rules(&self, tenant: &str, broken: &[&'static str], is_refused: bool) {
        self.note(format!("{tenant}: {}{}", broken.join(" "), if is_refused { " refused" } else { "" }));
    }

    fn signature_failed(&self) {
        self.note("signature failed".to_owned());
    }

    fn message_id(&self) -> Option<MessageId> {
        None
    }

    fn inject(&self, _: Draft, _: bool) -> Injected<'_> {
        Box::pin(async { Ok(()) })
    }

    fn inject_request(&self, _: Injection, _: AuthInfo) -> Requested<'_> {
        Box::pin(async { Err("counts only".to_owned()) })
    }

    fn administer(&self, _: &'static str, _: &'static str, _: serde_json::Value) -> Administered<'_> {
        Box::pin(async { Err("counts only".to_owned()) })
    }
}

fn dated(text: &str) -> Vec<u8> {
    let now = time::OffsetDateTime::now_utc();
    text.replace("DATE", &now.format(&time::format_description::well_known::Rfc2822).expect("a date")).into_bytes()
}

/// What becomes of the message, and what was counted.
fn held(top: &str, body: &str) -> (Result<Draft, String>, Vec<String>) {
    let counts = Counts::default();
    let held = run_on(&dated(MESSAGE), top, body, "192.0.2.5", Some(Box::new(counts.clone())));
    (held, counts.taken())
}

#[test]
fn a_sound_message_is_left_as_it_is() {
    let body = "msg:dkim_sign(signer())
        local before = msg:get_data()
        local found = kumo.compliance.check(msg, { mode = 'Reject', sources = { '192.0.2.5' }, tenant = 'acme' })
        assert(#found.findings == 0 and #found.undecided == 0, kumo.serde.json_encode(found))
        assert(msg:get_data() == before and msg:get_meta 'compliance' == nil)";
    let (held, counted) = held("", body);
    held.expect("sound");
    assert_eq!(counted, ["acme: "]);
}

#[test]
fn a_message_that_breaks_rules_is_told_so() {
    let check = |mode: &str| {
        format!(
            "msg:set_meta('tenant', 'acme')
             local found = kumo.compliance.check(msg, {{ mode = '{mode}', bulk = true, sources = {{ '192.0.2.5', '192.0.2.6' }} }})
             local names = {{}}
             for _, finding in ipairs(found.findings) do
               assert(finding.demanded and #finding.what > 0 and #finding.fix > 0 and finding.providers[1] == 'gmail')
               table.insert(names, finding.rule)
             end
             msg:set_meta('names', table.concat(names, ', '))"
        )
    };
    let all = "dkim, spf_source, unsubscribe, unsubscribe_post, ptr";
    let counted = "acme: dkim spf_source unsubscribe unsubscribe_post ptr";
    for mode in ["Warn", "Tag"] {
        let (draft, counts) = held("", &check(mode));
        let mut draft = draft.expect("taken");
        let meta = |name: &str| draft.meta.string(name).expect("text").map(str::to_owned);
        assert_eq!((meta("names").as_deref(), meta("compliance").as_deref()), (Some(all), Some(all)));
        let tag = draft.headers().first_value("X-Compliance");
        assert_eq!(tag.as_deref(), (mode == "Tag").then_some(all));
        assert_eq!(counts, [counted], "{mode}");
    }
    let (off, counts) = held("", &check("Off"));
    assert_eq!(off.expect("taken").meta.string("names"), Ok(Some("")));
    assert!(counts.is_empty(), "{counts:?}");
    let (refused, counts) = held("", &check("Reject"));
    let reply = refused.expect_err("refused");
    assert_has(
        &reply,
        &["550", "5.7.20 dkim: the message is not signed; sign with DKIM", "(also: spf_source, unsubscribe"],
    );
    assert_eq!(counts, [format!("{counted} refused")]);
}

#[test]
fn nobody_is_refused_for_advice() {
    let body = "msg:dkim_sign(signer()) msg:set_sender('a@from.test')
        local other = kumo.dkim.ed25519_signer { domain = 'other.test', selector = 's', headers = { 'From' }, key = { key_data = KEY } }
        msg:set_sender('')
        local found = kumo.compliance.check(msg, { mode = 'Reject', ignore = { 'ptr' } })
        assert(#found.findings == 0)
        msg:set_sender('b@x.unknown.test')
        found = kumo.compliance.check(msg, { mode = 'Reject', ignore = { 'spf' }, header = 'X-Y' })
        assert(#found.findings == 1 and found.findings[1].rule == 'spf_alignment' and not found.findings[1].demanded)
        assert(msg:get_meta 'compliance' == 'spf_alignment')";
    let (held, counted) = held("", body);
    held.expect("taken");
    assert_eq!(counted, [": ", ": spf_alignment"]);
}

#[test]
fn a_rule_is_named_and_counted_once() {
    let body = "msg:dkim_sign(signer())
        local sources = { '192.0.2.6', '192.0.2.7', '192.0.2.8' }
        local found = kumo.compliance.check(msg, { mode = 'Tag', sources = sources })
        assert(#found.findings == 6, kumo.serde.json_encode(found))";
    let (held, counted) = held("", body);
    let tag = held.expect("taken").headers().first_value("X-Compliance");
    assert_eq!((tag.as_deref(), counted), (Some("spf_source, ptr"), vec![": spf_source ptr".to_owned()]));
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let error =
        |options: &str| held("", &format!("kumo.compliance.check(msg, {{ {options} }})")).0.expect_err("an error");
    assert_has(&error("mod = 'Off'"), &["kumo.compliance.check", "unknown field `mod`", "did you mean `mode`?"]);
    assert_has(&error("mode = 'off'"), &["kumo.compliance.check", "Off"]);
    assert_has(&error("sources = { 'mx' }"), &["kumo.compliance.check", "sources"]);
    assert_has(&error("header = 'A:'"), &["invalid header", "expected printable ASCII"]);
    assert_has(&error("ignore = { 'dmark' }"), &["no rule `dmark`", "(did you mean `dmarc`?)"]);
    assert_has(&error("resolver = 'none'"), &["no resolver `none` is defined"]);
}

const HELPER: &str = "local gate = require('policy-extras.compliance'):setup {
    { base = { mode = 'Warn', sources = { '192.0.2.5' } },
      tenant = { acme = { mode = 'Reject' }, quiet = { mode = 'Off' }, lax = { mode = 'Reject', ignore = { 'dkim' } } } } }";

#[test]
fn each_tenant_has_its_mode() {
    let of = |tenant: &str| held(HELPER, &format!("{tenant} gate(msg)"));
    let (none, counted) = of("");
    assert_eq!(none.expect("taken").meta.string("compliance"), Ok(Some("dkim")));
    assert_eq!(counted, [": dkim"]);
    let (acme, counted) = of("msg:set_meta('tenant', 'acme')");
    assert_has(&acme.expect_err("refused"), &["550", "5.7.20 dkim"]);
    assert_eq!(counted, ["acme: dkim refused"]);
    let (quiet, counted) = of("msg:set_meta('tenant', 'quiet')");
    assert_eq!((quiet.expect("taken").meta.string("compliance"), counted), (Ok(None), vec![]));
    let (lax, counted) = of("msg:set_meta('tenant', 'lax')");
    assert_eq!((lax.expect("taken").meta.string("compliance"), counted), (Ok(None), vec!["lax: ".to_owned()]));
}

#[test]
fn files_of_the_helper_are_read_strictly() {
    let says = |data: &str| {
        load_error(&format!(
            "local ok, why = pcall(require('policy-extras.compliance_files').load, {{ {data} }}) error(tostring(why), 0)"
        ))
    };
    assert_has(&says("{ bas = {} }"), &["unknown section `bas`: expected `base` or `tenant`"]);
    assert_has(
        &says("{ tenant = { a = { mod = 'Off' } } }"),
        &["tenant `a`: unknown option `mod`", "did you mean `mode`?"],
    );
    assert_has(&says("{ tenant = { a = { mode = 'Of' } } }"), &["tenant `a`:", "mode"]);
    assert_has(&says("{ base = { ignore = { 'x' } } }"), &["base:", "no rule `x`"]);
}
