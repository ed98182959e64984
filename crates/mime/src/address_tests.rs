//! Tests of the address parser: forms of RFC 5322 and its appendix A, forms seen in mail, refusals, bounds.

use super::*;
use crate::lexer::COMMENT_DEPTH_MAX;

fn parse(value: &str) -> AddressList {
    AddressList::parse(value.as_bytes()).unwrap_or_else(|e| panic!("{value}: {e}"))
}

fn one(value: &str) -> (Option<String>, String, String) {
    let list = parse(value);
    let mailbox = list.single().unwrap_or_else(|e| panic!("{value}: {e}"));
    (mailbox.name.clone(), mailbox.user.clone(), mailbox.domain.clone())
}

#[test]
fn single_mailboxes() {
    let cases: &[(&str, Option<&str>, &str, &str)] = &[
        ("joe@example.org", None, "joe", "example.org"),
        ("  <joe@example.org> ", None, "joe", "example.org"),
        ("Joe Q. Public <john.q@example.com>", Some("Joe Q. Public"), "john.q", "example.com"),
        ("\"Giant; \\\"Big\\\" Box\" <a@b.c>", Some("Giant; \"Big\" Box"), "a", "b.c"),
        ("=?utf-8?q?J=C3=BCrgen?= =?utf-8?q?_X?= <j@x.de>", Some("J\u{fc}rgen X"), "j", "x.de"),
        ("J\u{fc}rgen <j\u{fc}@b\u{fc}cher.example>", Some("J\u{fc}rgen"), "j\u{fc}", "b\u{fc}cher.example"),
        ("Pete(A nice \\) chap) <pete(his account)@silly.test(his host)>", Some("Pete"), "pete", "silly.test"),
        ("John (comment (nested)) Doe\r\n <jd@example.com>", Some("John Doe"), "jd", "example.com"),
        ("\"joe blow\"@example.org", None, "joe blow", "example.org"),
        ("joe . blow @ example . org", None, "joe.blow", "example.org"),
        ("<@a.example,@b.example:joe@c.example>", None, "joe", "c.example"),
        ("joe@[192.0.2.1]", None, "joe", "[192.0.2.1]"),
        ("joe@x.org <joe@y.org>", Some("joe@x.org"), "joe", "y.org"),
        ("\"\"@example.org", None, "", "example.org"),
        ("joe@example.org,", None, "joe", "example.org"),
    ];
    for (value, name, user, domain) in cases {
        let expect = (name.map(str::to_owned), (*user).to_owned(), (*domain).to_owned());
        assert_eq!(one(value), expect, "{value}");
    }
}

#[test]
fn lists_and_groups() {
    let list = parse("a@b, ,Joe <c@d>, Team: x@y, \"Z\" <z@y>;, undisclosed-recipients:;");
    assert_eq!(list.entries().len(), 4);
    let emails: Vec<String> = list.mailboxes().map(Mailbox::email).collect();
    assert_eq!(emails, ["a@b", "c@d", "x@y", "z@y"]);
    let Address::Group { name, members } = &list.entries()[3] else {
        panic!("expected a group");
    };
    assert_eq!((name.as_str(), members.len()), ("undisclosed-recipients", 0));
    assert_eq!(list.single(), Err(AddressError::NotSingle { found: 4 }));
    assert_eq!(parse("open: a@b, c@d").mailboxes().count(), 2);
    assert_eq!(parse("").single(), Err(AddressError::NotSingle { found: 0 }));
    assert!(parse("Team: a@b;").single().is_err());
}

#[test]
fn email_is_quoted_when_needed() {
    let email = |user: &str| Mailbox { name: None, user: user.into(), domain: "d".into() }.email();
    assert_eq!(email("a.b"), "a.b@d");
    assert_eq!(email("a b"), "\"a b\"@d");
    assert_eq!(email("a..b"), "\"a..b\"@d");
    assert_eq!(email("a\"\\"), "\"a\\\"\\\\\"@d");
    assert_eq!(email(""), "\"\"@d");
}

#[test]
fn refusals() {
    let refused = |value: &str| AddressList::parse(value.as_bytes()).expect_err(value);
    for value in [
        "joe",
        "<joe>",
        "<>",
        "joe blow@x",
        "a@b c@d",
        "a@",
        "@b",
        "<a@b",
        "a@b@c",
        "a@b>",
        "a;b",
        "x <a@b> <c@d>",
        "a@\"b\"",
    ] {
        assert!(matches!(refused(value), AddressError::NotAnAddress { .. }), "{value}: {}", refused(value));
    }
    assert!(matches!(refused("\"open"), AddressError::Unclosed { what: "quoted string", offset: 0 }));
    assert!(matches!(refused("a (open"), AddressError::Unclosed { what: "comment", offset: 2 }));
    assert!(matches!(refused("a@[1"), AddressError::Unclosed { what: "domain literal", .. }));
    assert!(matches!(refused("a)b@c"), AddressError::Unexpected { found: ')', offset: 1 }));
    assert!(matches!(refused("a\0b@c"), AddressError::Unexpected { .. }));
    assert!(matches!(refused("g: h: a@b;;"), AddressError::NestedGroup { .. }));
}

#[test]
fn bounds() {
    let nested = |depth: usize| format!("{}{} a@b", "(".repeat(depth), ")".repeat(depth));
    assert!(AddressList::parse(nested(COMMENT_DEPTH_MAX).as_bytes()).is_ok());
    let deeper = AddressList::parse(nested(COMMENT_DEPTH_MAX + 1).as_bytes());
    assert_eq!(deeper, Err(AddressError::CommentTooDeep { max: COMMENT_DEPTH_MAX }));
    assert!(AddressList::parse("a@b,".repeat(ADDRESSES_MAX).as_bytes()).is_ok());
    let more = AddressList::parse("a@b,".repeat(ADDRESSES_MAX + 1).as_bytes());
    assert_eq!(more, Err(AddressError::TooMany { max: ADDRESSES_MAX }));
}
