//! iprev: names that lead back, names that do not, no names, no answers.

mod common;

use common::{Record, Table, now};
use sender_check::iprev;
use sender_check::limits::IPREV_NAMES_MAX;

const PLACE: &str = "1.2.0.192.in-addr.arpa";

fn check(table: &Table, ip: &str) -> (String, String) {
    let found = now(iprev(table, ip.parse().expect("an address")));
    assert_eq!((found.method.as_str(), found.props.len()), ("iprev", 1));
    assert_eq!(found.props["smtp.remote-ip"], ip.replace("::ffff:", ""));
    (found.result, found.reason.unwrap_or_default())
}

#[test]
fn names_lead_back_or_not() {
    let table = Table::new()
        .with_ptr(PLACE, "wrong.example.")
        .with_ptr(PLACE, "right.example.")
        .with_ip("wrong.example", "192.0.2.2")
        .with_ip("right.example", "192.0.2.1");
    assert_eq!(check(&table, "192.0.2.1"), ("pass".to_owned(), "right.example. leads back".to_owned()));
    assert_eq!(check(&table, "::ffff:192.0.2.1").0, "pass");
    assert_eq!(check(&table, "192.0.2.9"), ("permerror".to_owned(), "192.0.2.9 has no name in DNS".to_owned()));
    let table = Table::new().with_ptr(PLACE, "wrong.example").with_ip("wrong.example", "192.0.2.2");
    assert_eq!(check(&table, "192.0.2.1").0, "fail");
    let table = Table::new().with_ptr(PLACE, "silent.example").with_silence("silent.example");
    assert_eq!(check(&table, "192.0.2.1").0, "temperror");
    assert_eq!(check(&Table::new().with_silence(PLACE), "192.0.2.1").0, "temperror");
    let v6 = format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa", "0.".repeat(23));
    let table = Table::new().with_ptr(&v6, "six.example").with_ip("six.example", "2001:db8::1");
    assert_eq!(check(&table, "2001:db8::1").0, "pass");
}

#[test]
fn names_at_the_bound_and_past_it() {
    let table = |count: usize| {
        let mut table = Table::new().with_ip("last.example", "192.0.2.1");
        (1..count).for_each(|n| table.add(PLACE, Record::Ptr(format!("n{n}.example"))));
        table.with_ptr(PLACE, "last.example")
    };
    assert_eq!(check(&table(IPREV_NAMES_MAX), "192.0.2.1").0, "pass");
    assert_eq!(check(&table(IPREV_NAMES_MAX + 1), "192.0.2.1").0, "fail");
}
