//! The rule files in `share/`, against replies of real servers, in a table: `replies.tsv`.

use bounce::{Classifier, Remembered, Rules};

#[test]
fn replies_fall_into_their_classes() {
    let classifier = shipped();
    let mut wrong = Vec::new();
    for (class, reply) in replies() {
        let found = classifier.classify(reply);
        if found != class {
            wrong.push(format!("{reply}\n  is {found}, expected {class}; {:?}", classifier.why(reply).first()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every class of the files has a reply in the table, and every class is one KumoMTA knows by name.
#[test]
fn classes_are_known_and_tested() {
    let told: Vec<&str> = replies().map(|(class, _)| class).collect();
    for (_, text) in FILES {
        for line in text.lines().filter(|line| line.ends_with("= [")) {
            let class = line.trim_end_matches("= [").trim();
            assert!(PREDEFINED.contains(&class), "{class}");
            assert!(told.contains(&class), "{class} has no reply in replies.tsv");
        }
    }
}

fn shipped() -> Classifier {
    let rules = FILES.iter().map(|(name, text)| Rules::read(name, text).expect(name)).collect();
    Classifier::new(rules, Remembered { classified: 1024, uncategorized: 1024 }).expect("sound rules")
}

fn replies() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = include_str!("replies.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once('\t').expect(line))
}

const FILES: [(&str, &str); 2] = [
    ("share/community/bounces.toml", include_str!("../../../share/community/bounces.toml")),
    ("share/bounce_classifier/iana.toml", include_str!("../../../share/bounce_classifier/iana.toml")),
];

/// KumoMTA's own names; any other is the user's.
const PREDEFINED: [&str; 29] = [
    "InvalidRecipient",
    "DNSFailure",
    "SpamBlock",
    "SpamContent",
    "ProhibitedAttachment",
    "RelayDenied",
    "AutoReply",
    "TransientFailure",
    "Subscribe",
    "Unsubscribe",
    "ChallengeResponse",
    "BadConfiguration",
    "BadConnection",
    "BadDomain",
    "ContentRelated",
    "InactiveMailbox",
    "InvalidSender",
    "MessageExpired",
    "NoAnswerFromHost",
    "PolicyRelated",
    "ProtocolErrors",
    "QuotaIssues",
    "RelayingIssues",
    "RoutingErrors",
    "SpamRelated",
    "VirusRelated",
    "AuthenticationFailed",
    "TooManyRecipients",
    "Uncategorized",
];
