//! Tests of `mta_sts`: the grammar of RFC 8461, what it ignores and what it refuses.

use super::*;
use proptest::prelude::*;

const SOUND: &str =
    "version: STSv1\r\nmode: enforce\r\nmx: mail.example.com\r\nmx: *.Example.net\r\nmax_age: 604800\r\n";

fn parse(text: &str) -> Result<StsPolicy, String> {
    StsPolicy::parse(text.as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn the_example_of_the_rfc() {
    let policy = parse(SOUND).unwrap();
    assert_eq!((policy.mode, policy.max_age_secs), (StsMode::Enforce, 604_800));
    assert_eq!(policy.mx, ["mail.example.com", "*.example.net"]);
    assert_eq!(parse(&SOUND.replace("\r\n", "\n")).unwrap(), policy, "bare LF is allowed");
    assert_eq!(parse(SOUND.trim_end()).unwrap(), policy, "the last line may do without");
}

#[test]
fn what_is_ignored() {
    let policy =
        parse("max_age:1\nfuture: thing\nmode:testing\nmode: enforce\nversion:STSv1\nmx:a.test\nmax_age: 2\n").unwrap();
    assert_eq!((policy.mode, policy.max_age_secs), (StsMode::Testing, 1), "the first of two counts");
    let none = parse("version: STSv1\nmode: none\nmax_age: 9999999999").unwrap();
    assert_eq!((none.mode, none.max_age_secs, none.mx.len()), (StsMode::None, STS_MAX_AGE_SECS, 0));
}

#[test]
fn what_is_refused() {
    for (text, expected) in [
        ("", "the policy has no `version`"),
        ("<html>", "line 1 of the policy has no `name: value`"),
        ("version: STSv2\nmode: none\nmax_age: 1", "the policy says `version: STSv2`"),
        ("version: STSv1\nmode: Enforce\nmx: a.test\nmax_age: 1", "the policy says `mode: Enforce`"),
        ("version: STSv1\nmode: enforce\nmax_age: 1", "the policy has no `mx`"),
        ("version: STSv1\nmode: enforce\nmx: a.test", "the policy has no `max_age`"),
        ("version: STSv1\nmode: none\nmax_age: -1", "the policy says `max_age: -1`"),
        ("version: STSv1\nmode: none\nmax_age: 12345678901", "the policy says `max_age: 12345678901`"),
        ("version: STSv1\nmode: enforce\nmx: a..test\nmax_age: 1", "the policy says `mx: a..test`"),
        ("version: STSv1\nmode: enforce\nmx: a.*.test\nmax_age: 1", "the policy says `mx: a.*.test`"),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected, "{text:?}");
    }
    assert_eq!(StsPolicy::parse(b"version: \xff"), Err(StsError::NotText));
}

#[test]
fn bounds() {
    let with = |hosts: usize| format!("version: STSv1\nmode: enforce\nmax_age: 1\n{}", "mx: a.test\n".repeat(hosts));
    assert_eq!(parse(&with(STS_PATTERNS_MAX)).unwrap().mx.len(), STS_PATTERNS_MAX);
    assert_eq!(StsPolicy::parse(with(STS_PATTERNS_MAX + 1).as_bytes()), Err(StsError::TooManyHosts));
    let mut padded = SOUND.as_bytes().to_vec();
    padded.resize(STS_POLICY_BYTES_MAX, b'\n');
    assert!(StsPolicy::parse(&padded).is_ok());
    padded.push(b'\n');
    assert_eq!(StsPolicy::parse(&padded), Err(StsError::TooLarge));
}

#[test]
fn a_pattern_stands_for_one_label() {
    let policy = parse(SOUND).unwrap();
    for (host, allowed) in [
        ("mail.example.com", true),
        ("MAIL.example.com.", true),
        ("mail2.example.com", false),
        ("x.mail.example.com", false),
        ("mx1.example.net.", true),
        ("example.net", false),
        ("a.mx1.example.net", false),
        (".example.net", true),
        ("", false),
    ] {
        assert_eq!(policy.allows(host), allowed, "{host}");
    }
}

#[test]
fn records_that_announce_and_records_that_do_not() {
    let id = |texts: &[&str]| StsRecord::find(texts).map(|record| record.id);
    assert_eq!(id(&["v=STSv1; id=20160831085700Z;"]), Some("20160831085700Z".to_owned()));
    assert_eq!(id(&["other", "v=STSv1;id=1"]), Some("1".to_owned()));
    assert_eq!(id(&["v=STSv1; new=x; id=a1; more=y"]), Some("a1".to_owned()));
    for none in [
        &["v=STSv1"][..],
        &["v=STSv1; id="],
        &["v=STSv1; id=a-b"],
        &["v=STSv1; id=123456789012345678901234567890123"],
        &["v=STSv10; id=1"],
        &["V=STSv1; id=1"],
        &["v=STSv1; id=1", "v=STSv1; id=2"],
        &[],
    ] {
        assert_eq!(id(none), None, "{none:?}");
    }
    assert_eq!(id(&["v=STSv1; id=12345678901234567890123456789012"]).map(|id| id.len()), Some(ID_CHARS_MAX));
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = StsPolicy::parse(&octets);
        let _ = StsRecord::find(&[octets]);
    }

    #[test]
    fn what_is_written_is_read(
        mode in prop_oneof![Just(("enforce", StsMode::Enforce)), Just(("testing", StsMode::Testing))],
        max_age in 0..=STS_MAX_AGE_SECS,
        hosts in proptest::collection::vec("(\\*\\.)?[a-z0-9-]{1,8}(\\.[a-z0-9]{1,8}){0,3}", 1..9),
        rotation in 0usize..9,
    ) {
        let mut lines = vec!["version: STSv1".to_owned(), format!("mode:\t{}", mode.0), format!("max_age: {max_age} ")];
        lines.extend(hosts.iter().map(|host| format!("mx: {host}")));
        // The order of fields means nothing but among those of one name.
        let at = rotation % 3;
        lines[..3].rotate_left(at);
        let policy = StsPolicy::parse(lines.join("\r\n").as_bytes()).unwrap();
        prop_assert_eq!(&policy, &StsPolicy { mode: mode.1, max_age_secs: max_age, mx: hosts.clone() });
        for host in &hosts {
            prop_assert!(policy.allows(&host.replace('*', "any")));
        }
    }
}
