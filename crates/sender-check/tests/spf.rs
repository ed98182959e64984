//! SPF: the examples of RFC 7208 appendix A, limits at the bound and past it, what the results say.

mod common;

use common::{Record, Table, now};
use sender_check::limits::{
    EXPLANATION_CHARS_MAX, LOOKUP_TERMS_MAX, MX_NAMES_MAX, PTR_NAMES_MAX, RECORD_BYTES_MAX, VOID_LOOKUPS_MAX,
};
use sender_check::spf::SpfDisposition::{Fail, Neutral, None, Pass, PermError, SoftFail, TempError};
use sender_check::spf::{SpfCheck, SpfDisposition, SpfQuery, check_host};

fn check(table: &Table, ip: &str, domain: &str) -> SpfCheck {
    let sender = format!("local@{domain}");
    let query = SpfQuery {
        ip: ip.parse().expect("an address"),
        domain,
        sender: Some(&sender),
        helo: "helo.example",
        receiver: "here.example",
        now_unix_secs: 0,
    };
    now(check_host(table, &query))
}

/// For `ex.example` with this record, and what else is in the table.
fn with(table: Table, record: &str) -> SpfCheck {
    check(&table.with_txt("ex.example", record), "192.0.2.1", "ex.example")
}

fn disposition(table: Table, record: &str) -> SpfDisposition {
    with(table, record).disposition
}

/// The zone of appendix A.
fn example() -> Table {
    Table::new()
        .with_mx("example.com", "mail-a.example.com")
        .with_mx("example.com", "mail-b.example.com")
        .with_ip("example.com", "192.0.2.10")
        .with_ip("example.com", "192.0.2.11")
        .with_ip("amy.example.com", "192.0.2.65")
        .with_ip("bob.example.com", "192.0.2.66")
        .with_ip("mail-a.example.com", "192.0.2.129")
        .with_ip("mail-b.example.com", "192.0.2.130")
        .with_mx("example.org", "mail-c.example.org")
        .with_ip("mail-c.example.org", "192.0.2.140")
        .with_ptr("10.2.0.192.in-addr.arpa", "example.com.")
        .with_ptr("11.2.0.192.in-addr.arpa", "example.com.")
        .with_ptr("65.2.0.192.in-addr.arpa", "amy.example.com.")
        .with_ptr("66.2.0.192.in-addr.arpa", "bob.example.com.")
        .with_ptr("129.2.0.192.in-addr.arpa", "mail-a.example.com.")
        .with_ptr("130.2.0.192.in-addr.arpa", "mail-b.example.com.")
        .with_ptr("140.2.0.192.in-addr.arpa", "mail-c.example.org.")
        .with_ptr("4.0.0.10.in-addr.arpa", "bob.example.com.")
}

#[test]
fn the_examples_of_appendix_a() {
    let all = [
        "192.0.2.10",
        "192.0.2.11",
        "192.0.2.65",
        "192.0.2.66",
        "192.0.2.129",
        "192.0.2.130",
        "192.0.2.140",
        "10.0.0.4",
    ];
    for (record, passing) in [
        ("+all", &all[..]),
        ("a -all", &["192.0.2.10", "192.0.2.11"]),
        ("a:example.org -all", &[]),
        ("mx -all", &["192.0.2.129", "192.0.2.130"]),
        ("mx:example.org -all", &["192.0.2.140"]),
        ("mx mx:example.org -all", &["192.0.2.129", "192.0.2.130", "192.0.2.140"]),
        ("mx/30 mx:example.org/30 -all", &["192.0.2.129", "192.0.2.130", "192.0.2.140"]),
        ("ptr -all", &["192.0.2.10", "192.0.2.11", "192.0.2.65", "192.0.2.66", "192.0.2.129", "192.0.2.130"]),
        ("ip4:192.0.2.128/28 -all", &["192.0.2.129", "192.0.2.130", "192.0.2.140"]),
    ] {
        for ip in all {
            let table = example().with_txt("example.com", &format!("v=spf1 {record}"));
            let expected = if passing.contains(&ip) { Pass } else { Fail };
            assert_eq!(check(&table, ip, "example.com").disposition, expected, "{record} {ip}");
        }
    }
    // A.4: multiple requirements.
    let table = Table::new()
        .with_txt("example.org", "v=spf1 exists:%{d}._spf.%{d} -all")
        .with_txt("list.example", "v=spf1 exists:%{ir}.%{l1r+-}._spf.%{d} -all")
        .with_ip("4.3.2.10.local._spf.list.example", "127.0.0.2");
    assert_eq!(check(&table, "10.2.3.4", "list.example").disposition, Pass);
    assert_eq!(check(&table, "10.2.3.5", "list.example").disposition, Fail);
    assert_eq!(check(&table, "10.2.3.4", "example.org").disposition, Fail);
}

#[test]
fn dispositions_and_what_is_said() {
    for (record, expected, reason) in [
        ("v=spf1 ip4:192.0.2.0/24", Pass, "ex.example: ip4:192.0.2.0/24 matches"),
        ("v=spf1 -all", Fail, "ex.example: -all matches"),
        ("v=spf1 ~all", SoftFail, "ex.example: ~all matches"),
        ("v=spf1 ?all", Neutral, "ex.example: ?all matches"),
        ("v=spf1", Neutral, "ex.example: nothing in its SPF record matches"),
        ("other", None, "ex.example has no SPF record"),
        ("v=spf1 moo", PermError, "ex.example: \"moo\" is no mechanism and no modifier"),
        ("v=spf1 a:silent.example", TempError, "silent.example: no answer from DNS in time"),
        ("v=spf1 include:gone.example", PermError, "include of gone.example, which has no SPF record"),
        ("v=spf1 redirect=gone.example", PermError, "redirect to gone.example, which has no SPF record"),
    ] {
        let found = with(Table::new().with_silence("silent.example"), record);
        assert_eq!((found.disposition, found.result.reason.as_deref()), (expected, Some(reason)), "{record}");
        assert_eq!((found.result.method.as_str(), found.result.result.as_str()), ("spf", expected.word()));
        assert_eq!(found.result.props["smtp.mailfrom"], "local@ex.example");
    }
    let helo = "b\u{fc}cher.example";
    let ip = [192, 0, 2, 1].into();
    let table = Table::new().with_txt("xn--bcher-kva.example", "v=spf1 ip4:192.0.2.0/24 -all");
    let found = now(check_host(&table, &SpfQuery::of_envelope(ip, "", helo, "here.example", 0)));
    assert_eq!((found.disposition, found.result.props["smtp.helo"].as_str()), (Pass, helo));
    let query = SpfQuery::of_envelope(ip, "a@x.example", helo, "here.example", 0);
    assert_eq!((query.domain, query.sender), ("x.example", Some("a@x.example")));
    // A sender of another domain than the one asked about proves nothing of its own.
    let found = now(check_host(&table, &SpfQuery { domain: helo, ..query }));
    assert_eq!((found.disposition, found.result.props["smtp.mailfrom"].as_str()), (Pass, helo));
    assert_eq!(check(&table, "::ffff:192.0.2.1", "xn--bcher-kva.example").disposition, Pass);
}

#[test]
fn terms_that_ask_are_counted() {
    let record = |count: usize| format!("v=spf1 {}-all", "a:there.example ".repeat(count));
    let table = || Table::new().with_ip("there.example", "192.0.2.99");
    assert_eq!(disposition(table(), &record(LOOKUP_TERMS_MAX)), Fail);
    assert_eq!(disposition(table(), &record(LOOKUP_TERMS_MAX + 1)), PermError);
    // Records that include each other without end.
    let table = Table::new()
        .with_txt("a.example", "v=spf1 include:b.example")
        .with_txt("b.example", "v=spf1 include:a.example");
    assert_eq!(check(&table, "192.0.2.1", "a.example").disposition, PermError);
    assert_eq!(table.questions(), LOOKUP_TERMS_MAX + 1);
    // A record that includes itself ten times over, ten levels deep, is not evaluated ten to the tenth times.
    let table = Table::new().with_txt("a.example", &format!("v=spf1 {}", "include:a.example ".repeat(10)));
    assert_eq!(check(&table, "192.0.2.1", "a.example").disposition, PermError);
    assert_eq!(table.questions(), LOOKUP_TERMS_MAX + 1);
}

#[test]
fn terms_that_find_nothing_are_counted() {
    let record = |count: usize| format!("v=spf1 {}-all", "exists:gone.example ".repeat(count));
    assert_eq!(disposition(Table::new(), &record(VOID_LOOKUPS_MAX)), Fail);
    assert_eq!(disposition(Table::new(), &record(VOID_LOOKUPS_MAX + 1)), PermError);
}

#[test]
fn hosts_of_mx_and_ptr_are_counted() {
    let table = |count: usize| {
        let mut table = Table::new().with_ip("last.example", "192.0.2.1");
        (1..count).for_each(|n| table.add("ex.example", Record::Mx(1, format!("h{n}.example"))));
        table.add("ex.example", Record::Mx(99, "last.example".to_owned()));
        table
    };
    assert_eq!(disposition(table(MX_NAMES_MAX), "v=spf1 mx -all"), Pass);
    assert_eq!(disposition(table(MX_NAMES_MAX + 1), "v=spf1 mx -all"), PermError);
    let table = |count: usize| {
        let mut table = Table::new().with_ip("last.ex.example", "192.0.2.1");
        (1..count).for_each(|n| table.add("1.2.0.192.in-addr.arpa", Record::Ptr(format!("h{n}.ex.example"))));
        table.with_ptr("1.2.0.192.in-addr.arpa", "last.ex.example")
    };
    assert_eq!(disposition(table(PTR_NAMES_MAX), "v=spf1 ptr -all"), Pass);
    assert_eq!(disposition(table(PTR_NAMES_MAX + 1), "v=spf1 ptr -all"), Fail);
}

#[test]
fn records_and_explanations_are_bounded() {
    let record = |octets: usize| format!("v=spf1 -all{}", " ".repeat(octets - 11));
    assert_eq!(disposition(Table::new(), &record(RECORD_BYTES_MAX)), Fail);
    assert_eq!(disposition(Table::new(), &record(RECORD_BYTES_MAX + 1)), PermError);
    let explained =
        |text: &str| with(Table::new().with_txt("why.example", text), "v=spf1 -all exp=why.example").explanation;
    let text = "x".repeat(EXPLANATION_CHARS_MAX);
    assert_eq!(explained(&text), Some(text.clone()));
    assert_eq!(explained(&format!("{text}x")), Option::None);
    assert_eq!(explained("%{i} is not one of %{d}'s"), Some("192.0.2.1 is not one of ex.example's".to_owned()));
    assert_eq!(explained("line\r\nbreak"), Option::None);
}
