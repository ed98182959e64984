//! DMARC: alignment, whose record counts, what the verdict is.

mod common;

use common::{Table, now};
use mime::HeaderBlock;
use sender_check::AuthenticationResult;
use sender_check::dmarc::{DmarcCheck, DmarcDisposition, DmarcInput, Organisations, check, check_by, published};
use sender_check::limits::{DMARC_QUESTIONS_MAX, IDENTITIES_MAX, WALK_QUESTIONS_MAX, WALKS_MAX};

fn result(method: &str, word: &str, prop: &str, value: &str) -> AuthenticationResult {
    let props = [(prop.to_owned(), value.to_owned())].into();
    AuthenticationResult { method: method.into(), result: word.into(), props, ..AuthenticationResult::default() }
}

fn dkim(word: &str, domain: &str) -> AuthenticationResult {
    result("dkim", word, "header.d", domain)
}

fn spf(word: &str, sender: &str) -> AuthenticationResult {
    result("spf", word, "smtp.mailfrom", sender)
}

fn judge(table: &Table, from: &str, dkim: &[AuthenticationResult], spf: &AuthenticationResult) -> DmarcCheck {
    sampled(table, from, dkim, spf, 0)
}

fn sampled(
    table: &Table,
    from: &str,
    dkim: &[AuthenticationResult],
    spf: &AuthenticationResult,
    sample_percent: u8,
) -> DmarcCheck {
    let raw = format!("From: {from}\r\n\r\n");
    let block = HeaderBlock::parse(raw.as_bytes());
    now(check(table, block.view(raw.as_bytes()), DmarcInput { dkim, spf, sample_percent }))
}

/// The disposition for a domain whose record is `record`, when `dkim` and `spf` say this.
fn with(record: &str, from: &str, dkim_domain: &str, sender: &str) -> DmarcDisposition {
    let table = Table::new().with_txt("_dmarc.ex.example", record).with_ip("sub.ex.example", "192.0.2.1");
    judge(&table, from, &[dkim("fail", "ex.example"), dkim("pass", dkim_domain)], &spf("pass", sender)).disposition
}

#[test]
fn alignment() {
    use DmarcDisposition::{Pass, Reject};
    let none = "none.example";
    for (tags, from, dkim_domain, sender, expected) in [
        ("", "a@ex.example", "ex.example", none, Pass),
        ("", "a@ex.example", "EX.Example.", none, Pass),
        ("", "a@ex.example", "mail.ex.example", none, Pass),
        ("", "a@sub.ex.example", "ex.example", none, Pass),
        ("", "a@ex.example", "notex.example", none, Reject),
        ("", "a@ex.example", "example", none, Reject),
        ("", "a@ex.example", none, "b@ex.example", Pass),
        ("", "a@ex.example", none, "b@bounce.ex.example", Pass),
        ("", "a@ex.example", none, "ex.example@other.example", Reject),
        ("adkim=s", "a@ex.example", "ex.example", none, Pass),
        ("adkim=s", "a@ex.example", "mail.ex.example", none, Reject),
        ("aspf=s", "a@ex.example", none, "b@ex.example", Pass),
        ("aspf=s", "a@ex.example", none, "b@bounce.ex.example", Reject),
        ("adkim=s", "a@ex.example", none, "b@bounce.ex.example", Pass),
        ("psd=n", "a@ex.example", "mail.ex.example", none, Pass),
    ] {
        let record = format!("v=DMARC1; p=reject; {tags}");
        assert_eq!(with(&record, from, dkim_domain, sender), expected, "{tags} {from} {dkim_domain} {sender}");
    }
    let table = Table::new().with_txt("_dmarc.ex.example", "v=DMARC1; p=reject");
    let helo = result("spf", "pass", "smtp.helo", "mx.ex.example");
    assert_eq!(judge(&table, "a@ex.example", &[], &helo).disposition, Pass);
    let other = result("x", "pass", "header.d", "ex.example");
    assert_eq!(judge(&table, "a@ex.example", std::slice::from_ref(&other), &other).disposition, Reject);
    let own = Table::new().with_txt("_dmarc.own.ex.example", "v=DMARC1; p=reject; psd=n");
    let of_own = |domain| judge(&own, "a@own.ex.example", &[dkim("pass", domain)], &spf("none", none)).disposition;
    assert_eq!([of_own("own.ex.example"), of_own("x.own.ex.example"), of_own("ex.example")], [Pass, Pass, Reject]);
}

#[test]
fn whose_policy_counts() {
    use DmarcDisposition::{None, PermError, Quarantine, Reject, TempError};
    let table = Table::new()
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none; sp=quarantine; np=reject")
        .with_txt("_dmarc.own.ex.example", "v=DMARC1; p=reject; sp=none")
        .with_ip("sub.ex.example", "192.0.2.1")
        .with_mx("mailed.ex.example", "mx.ex.example")
        .with_txt("_dmarc.twice.example", "v=DMARC1; p=reject")
        .with_txt("_dmarc.twice.example", "v=DMARC1; p=reject")
        .with_txt("_dmarc.spoilt.example", "v=DMARC2; p=reject")
        .with_txt("_dmarc.co.uk", "v=DMARC1; p=none; sp=quarantine; psd=y")
        .with_txt("_dmarc.org.uk", "v=DMARC1; p=reject")
        .with_silence("_dmarc.silent.example")
        .with_txt("_dmarc.half.example", "v=DMARC1; p=none; np=reject")
        .with_silence("sub.half.example");
    let of = |from: &str| judge(&table, from, &[dkim("pass", "other.example")], &spf("fail", "other.example"));
    for (from, disposition, word) in [
        ("a@ex.example", None, "fail"),
        ("a@sub.ex.example", Quarantine, "fail"),
        ("a@mailed.ex.example", Quarantine, "fail"),
        ("a@gone.ex.example", Reject, "fail"),
        ("a@own.ex.example", Reject, "fail"),
        ("a@twice.example", None, "none"),
        ("a@spoilt.example", None, "none"),
        ("a@x.co.uk", Quarantine, "fail"),
        ("a@x.org.uk", None, "none"),
        ("a@silent.example", TempError, "temperror"),
        ("a@sub.half.example", TempError, "temperror"),
        ("a@[192.0.2.1]", PermError, "permerror"),
        ("a@x.example, a@y.example", PermError, "permerror"),
    ] {
        let before = table.questions();
        let found = of(from);
        assert_eq!((found.disposition, found.result.result.as_str()), (disposition, word), "{from}: {found:?}");
        assert!(table.questions() - before <= DMARC_QUESTIONS_MAX, "{from}");
    }
    let found = of("a@sub.ex.example").result;
    assert_eq!(found.props["header.from"], "sub.ex.example");
    assert_eq!(found.props["policy.dmarc"], "quarantine");
    assert_eq!(
        found.reason.as_deref(),
        Some("nothing passed that is aligned with sub.ex.example; policy of ex.example: quarantine")
    );
}

#[test]
fn some_are_spared() {
    use DmarcDisposition::{None, Quarantine, Reject};
    let of = |tags: &str, sample| {
        let table = Table::new().with_txt("_dmarc.ex.example", &format!("v=DMARC1; {tags}"));
        sampled(&table, "a@ex.example", &[], &spf("fail", "x.example"), sample).disposition
    };
    assert_eq!(
        [of("p=reject", 99), of("p=reject; pct=100", 99), of("p=reject; pct=0", 0)],
        [Reject, Reject, Quarantine]
    );
    assert_eq!([of("p=reject; pct=20", 19), of("p=reject; pct=20", 20)], [Reject, Quarantine]);
    assert_eq!([of("p=quarantine; pct=20", 19), of("p=quarantine; pct=20", 20)], [Quarantine, None]);
    assert_eq!([of("p=reject; t=y", 0), of("p=quarantine; t=y", 0)], [Quarantine, None]);
}

#[test]
fn nothing_is_refused_for_what_may_pass_later() {
    let table = Table::new().with_txt("_dmarc.ex.example", "v=DMARC1; p=reject");
    let of = |dkim: &[AuthenticationResult], spf| judge(&table, "a@ex.example", dkim, &spf).disposition;
    let broken = [dkim("temperror", "ex.example")];
    assert_eq!(of(&broken, spf("fail", "a@ex.example")), DmarcDisposition::TempError);
    assert_eq!(of(&[], spf("temperror", "a@ex.example")), DmarcDisposition::TempError);
    assert_eq!(of(&broken, spf("pass", "a@ex.example")), DmarcDisposition::Pass);
    assert_eq!(of(&[dkim("temperror", "other.example")], spf("none", "x")), DmarcDisposition::Reject);
}

#[test]
fn results_at_the_bound_and_past_it() {
    let table = Table::new().with_txt("_dmarc.ex.example", "v=DMARC1; p=reject");
    let of = |before: usize| {
        let mut results = vec![dkim("pass", "other.example"); before];
        results.push(dkim("pass", "ex.example"));
        judge(&table, "a@ex.example", &results, &spf("none", "x")).disposition
    };
    assert_eq!(of(IDENTITIES_MAX - 1), DmarcDisposition::Pass);
    assert_eq!(of(IDENTITIES_MAX), DmarcDisposition::Reject);
}

/// By the walk up the tree: `records` at these names, a signature of `dkim_domain` that passed.
fn walked(records: &[(&str, &str)], from: &str, dkim_domain: &str) -> DmarcDisposition {
    let table = records.iter().fold(Table::new(), |table, (name, text)| {
        table.with_txt(&format!("_dmarc.{name}"), &format!("v=DMARC1; {text}"))
    });
    by_walk(&table, from, &[dkim("pass", dkim_domain)]).disposition
}

fn by_walk(table: &Table, from: &str, dkim: &[AuthenticationResult]) -> DmarcCheck {
    let raw = format!("From: {from}\r\n\r\n");
    let block = HeaderBlock::parse(raw.as_bytes());
    let input = DmarcInput { dkim, spf: &spf("fail", "a@none.example"), sample_percent: 0 };
    now(check_by(Organisations::TreeWalk, table, block.view(raw.as_bytes()), input))
}

#[test]
fn the_walk_finds_organisations_without_a_list() {
    use DmarcDisposition::{None, Pass, Quarantine, Reject};
    let org = [("ex.example", "p=reject; sp=quarantine")];
    let from = "a@mail.ex.example";
    assert_eq!(walked(&org, from, "news.ex.example"), Pass);
    assert_eq!(walked(&org, from, "other.example"), Quarantine);
    assert_eq!(walked(&org, "a@ex.example", "other.example"), Reject);
    assert_eq!(walked(&[], from, "mail.ex.example"), None);
    // What the list calls one organisation may be two, and what it calls two may be one.
    let two = [("ex.example", "p=reject"), ("mail.ex.example", "p=reject; psd=n")];
    assert_eq!(walked(&two, from, "x.mail.ex.example"), Pass);
    assert_eq!(walked(&two, from, "news.ex.example"), Reject);
    let one = [("com", "p=reject")];
    assert_eq!(walked(&one, "a@one.com", "two.com"), Pass);
    let suffix = [("com", "p=none; np=reject; psd=y")];
    assert_eq!(walked(&suffix, "a@one.com", "two.com"), Reject, "neither exists, each an organisation of its own");
    assert_eq!(walked(&suffix, "a@one.com", "x.one.com"), Pass);
    // A record that is neither the author's nor the organisation's does not count.
    let middle = [("ex.example", "p=reject"), ("b.ex.example", "p=none")];
    assert_eq!(walked(&middle, "a@a.b.ex.example", "other.example"), Reject);
    let strict = [("ex.example", "p=reject; adkim=s")];
    assert_eq!(walked(&strict, "a@ex.example", "x.ex.example"), Reject);
}

#[test]
fn by_the_walk_a_name_exists_when_dns_knows_it() {
    use DmarcDisposition::{None, Reject, TempError};
    let mut table = Table::new()
        .with_txt("_dmarc.ex.example", "v=DMARC1; p=none; np=reject")
        .with_txt("texts.ex.example", "x")
        .with_silence("silent.ex.example");
    table.add_name("empty.ex.example");
    for (from, by_list, walked) in [
        ("a@texts.ex.example", Reject, None),
        ("a@empty.ex.example", Reject, None),
        ("a@gone.ex.example", Reject, Reject),
        ("a@silent.ex.example", TempError, TempError),
    ] {
        let found = judge(&table, from, &[], &spf("fail", "a@none.example")).disposition;
        assert_eq!((found, by_walk(&table, from, &[]).disposition), (by_list, walked), "{from}");
    }
}

#[test]
fn a_record_that_says_what_it_is_stops_the_walk() {
    use DmarcDisposition::{None, Pass, Reject};
    for (of_dept, from, dkim_domain, expected) in [
        ("psd=n", "a@dept.ex.example", "vendor.example", None),
        ("p=typo; psd=n", "a@dept.ex.example", "ex.example", None),
        ("psd=n", "a@x.dept.ex.example", "y.dept.ex.example", Pass),
        ("psd=n", "a@x.dept.ex.example", "ex.example", None),
        ("psd=u", "a@dept.ex.example", "vendor.example", Reject),
        ("rua=mailto:r@ex.example", "a@dept.ex.example", "vendor.example", None),
    ] {
        let records = [("ex.example", "p=reject"), ("dept.ex.example", of_dept)];
        assert_eq!(walked(&records, from, dkim_domain), expected, "{of_dept} {from} {dkim_domain}");
    }
    // Of two records none counts, though one of them cannot be used.
    let two = [("dept.ex.example", "p=none; psd=n"), ("dept.ex.example", "p=typo"), ("ex.example", "p=reject")];
    assert_eq!(walked(&two, "a@dept.ex.example", "vendor.example"), Reject);
    // RFC 9989 has no pct=.
    assert_eq!(walked(&[("ex.example", "p=reject; pct=0")], "a@ex.example", "vendor.example"), Reject);
}

#[test]
fn walks_are_bounded() {
    let deep = |number: usize| format!("{}n{number}.n.ex.example", "d.".repeat(30));
    // All but the last are of organisations of their own.
    let table = (0..WALKS_MAX).fold(Table::new(), |table, number| {
        table.with_txt(&format!("_dmarc.n{number}.n.ex.example"), "v=DMARC1; p=none; psd=n")
    });
    let table = table.with_txt("_dmarc.n.ex.example", "v=DMARC1; p=reject; psd=n");
    let results: Vec<_> = (0..=WALKS_MAX).map(|number| dkim("pass", &deep(number))).collect();
    let of = |results: &[AuthenticationResult]| {
        let before = table.questions();
        let found = by_walk(&table, "a@n.ex.example", results).disposition;
        let asked = table.questions() - before;
        assert!(asked > WALKS_MAX && asked <= WALK_QUESTIONS_MAX * (1 + WALKS_MAX), "{asked}");
        found
    };
    assert_eq!([of(&results[1..]), of(&results)], [DmarcDisposition::Pass, DmarcDisposition::Reject]);
}

#[test]
fn a_walk_that_ends_in_silence_is_no_verdict() {
    use DmarcDisposition::{Pass, Reject, TempError};
    let table = Table::new().with_txt("_dmarc.ex.example", "v=DMARC1; p=reject").with_silence("_dmarc.x.ex.example");
    let found = by_walk(&table, "a@ex.example", &[dkim("pass", "x.ex.example")]);
    assert_eq!(found.disposition, TempError);
    let table = Table::new().with_silence("_dmarc.ex.example");
    assert_eq!(by_walk(&table, "a@ex.example", &[]).disposition, TempError);
    // What is above the author's domain matters only to other domains.
    let (own, other) = (dkim("pass", "ex.example"), dkim("pass", "y.ex.example"));
    let above = |tags: &str, dkim: &[AuthenticationResult]| {
        let record = format!("v=DMARC1; p=reject; {tags}");
        let table = Table::new().with_txt("_dmarc.ex.example", &record).with_silence("_dmarc.example");
        (by_walk(&table, "a@ex.example", dkim).disposition, table.questions())
    };
    assert_eq!(above("", std::slice::from_ref(&own)), (Pass, 1));
    assert_eq!(above("", &[]), (Reject, 1));
    assert_eq!(above("", &[dkim("fail", "y.ex.example")]), (Reject, 1));
    assert_eq!(above("adkim=s; aspf=s", std::slice::from_ref(&other)), (Reject, 1));
    assert_eq!(above("", std::slice::from_ref(&other)).0, TempError);
    assert_eq!(above("", &[other, own]).0, Pass);
}

#[test]
fn what_is_published_says_what_would_be_aligned() {
    let table = Table::new().with_txt("_dmarc.ex.example", "v=DMARC1; p=none; aspf=s");
    let found = now(published(&table, "ex.example")).expect("answers");
    assert!(found.has_record() && found.aligns_dkim("Mail.ex.example") && !found.aligns_dkim("notex.example"));
    assert!(found.aligns_spf("ex.example") && !found.aligns_spf("mail.ex.example"));
    let none = now(published(&table, "no.example")).expect("answers");
    assert!(!none.has_record() && none.aligns_spf("x.no.example"));
    assert!(now(published(&Table::new().with_silence("_dmarc.ex.example"), "ex.example")).is_err());
}
