//! What became of each message, from the log records of the server: in words, and whether it is what had to become of it.
//!
//! In: log records as JSON, and what a receiver found of a signature. Out: lines for people. Pure.

use super::remote::Manner;
use crate::output::shown;
use serde_json::Value;

/// A step of a message's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Received,
    /// The receiver verified the signature.
    Signed,
    Deferred,
    Delivered,
    Bounced,
    Expired,
}

impl Step {
    fn word(self) -> &'static str {
        match self {
            Step::Received => "received",
            Step::Signed => "signed",
            Step::Deferred => "deferred",
            Step::Delivered => "delivered",
            Step::Bounced => "bounced",
            Step::Expired => "expired",
        }
    }
}

/// The ways of all messages.
#[derive(Debug, Default)]
pub(super) struct Stories {
    steps: Vec<(Manner, Step)>,
    /// What receivers found before the log told that the message was received: it comes a little later.
    early: Vec<(Manner, String)>,
}

impl Stories {
    /// Takes a log record; what is to be said of it. Nothing of records about other things.
    pub fn hear(&mut self, record: &Value) -> Vec<String> {
        let Some((manner, step, meaning)) = read(record) else { return Vec::new() };
        let mut said = vec![self.add(manner, step, &meaning)];
        if step == Step::Received {
            let early = std::mem::take(&mut self.early);
            let (ours, others) = early.into_iter().partition(|(of, _)| *of == manner);
            self.early = others;
            said.extend(ours.into_iter().map(|(_, result): (Manner, String)| self.found(manner, &result)));
        }
        said
    }

    /// A receiver looked at a signature: `result` is DKIM's word for it.
    pub fn verified(&mut self, manner: Manner, result: &str) -> Vec<String> {
        match self.steps(manner).contains(&Step::Received) {
            true => vec![self.found(manner, result)],
            false => {
                self.early.push((manner, result.to_owned()));
                Vec::new()
            }
        }
    }

    fn found(&mut self, manner: Manner, result: &str) -> String {
        match result {
            "pass" => self.add(manner, Step::Signed, "the receiver verified the DKIM signature of yours.test"),
            other => line(manner, "unsigned", &format!("the receiver says of the signature: {other}")),
        }
    }

    /// True once every message has come to its end.
    pub fn are_over(&self) -> bool {
        Manner::ALL.into_iter().all(|manner| self.is_over(manner))
    }

    /// Those whose way is not the one it had to be, with both.
    pub fn unexpected(&self) -> Vec<String> {
        let words = |steps: &[Step]| steps.iter().map(|step| step.word()).collect::<Vec<_>>().join(", ");
        let wrong = Manner::ALL.into_iter().filter(|manner| !self.is_as_expected(*manner));
        wrong
            .map(|manner| {
                format!(
                    "{}: expected {}; it was {}",
                    manner.domain(),
                    words(expected(manner)),
                    words(&self.steps(manner))
                )
            })
            .collect()
    }

    fn add(&mut self, manner: Manner, step: Step, meaning: &str) -> String {
        self.steps.push((manner, step));
        line(manner, step.word(), meaning)
    }

    fn steps(&self, manner: Manner) -> Vec<Step> {
        self.steps.iter().filter(|(of, _)| *of == manner).map(|(_, step)| *step).collect()
    }

    fn is_over(&self, manner: Manner) -> bool {
        let steps = self.steps(manner);
        let ended = steps.iter().any(|step| matches!(step, Step::Delivered | Step::Bounced | Step::Expired));
        // What the receiver found is told beside the log, and may come a little later.
        ended && (!expected(manner).contains(&Step::Signed) || steps.contains(&Step::Signed))
    }

    /// A message may be deferred more often than once.
    fn is_as_expected(&self, manner: Manner) -> bool {
        let mut steps: Vec<Step> = self.steps(manner);
        let signed = steps.contains(&Step::Signed);
        steps.retain(|step| *step != Step::Signed);
        steps.dedup();
        let log: Vec<Step> = expected(manner).iter().copied().filter(|step| *step != Step::Signed).collect();
        steps == log && signed == expected(manner).contains(&Step::Signed)
    }
}

fn line(manner: Manner, word: &str, meaning: &str) -> String {
    format!("{:<20} {word:<10} {}", format!("you@{}", manner.domain()), shown(meaning))
}

/// Of a log record: whose it is, which step, and what that means. Nothing of records about other things.
fn read(record: &Value) -> Option<(Manner, Step, String)> {
    let recipient = record["recipient"].as_str().or_else(|| record["recipient"][0].as_str())?;
    let (_, domain) = recipient.rsplit_once('@')?;
    let manner = Manner::ALL.into_iter().find(|manner| manner.domain() == domain)?;
    let (step, meaning) = match record["type"].as_str()? {
        "Reception" => (Step::Received, "on disk here before the sender had his 250"),
        "Delivery" => (Step::Delivered, ""),
        "TransientFailure" => (Step::Deferred, ": tried again by itself"),
        "Bounce" => (Step::Bounced, ": for good, it is not tried again"),
        "Expiration" => (Step::Expired, ": given up after max_age"),
        _ => return None,
    };
    let reply = if step == Step::Received { String::new() } else { reply(&record["response"]) };
    Some((manner, step, format!("{reply}{meaning}")))
}

/// The way that a message to such a server has to take.
fn expected(manner: Manner) -> &'static [Step] {
    match manner {
        Manner::Accepts => &[Step::Received, Step::Signed, Step::Delivered],
        Manner::BusyFirst | Manner::HangsUpFirst => &[Step::Received, Step::Deferred, Step::Signed, Step::Delivered],
        Manner::Refuses => &[Step::Received, Step::Bounced],
        Manner::Silent => &[Step::Received, Step::Deferred, Step::Expired],
    }
}

/// A reply as it was said: code, enhanced code, text.
fn reply(response: &Value) -> String {
    let enhanced = &response["enhanced_code"];
    let digits = ["class", "subject", "detail"].map(|name| enhanced[name].as_u64());
    let enhanced = match digits {
        [Some(class), Some(subject), Some(detail)] => format!(" {class}.{subject}.{detail}"),
        _ => String::new(),
    };
    let text = response["content"].as_str().unwrap_or_default();
    format!("{}{enhanced} {text}", response["code"].as_u64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record(kind: &str, domain: &str, code: u16, text: &str) -> Value {
        let enhanced = json!({"class": code / 100, "subject": 1, "detail": 2});
        json!({"type": kind, "recipient": format!("you@{domain}"),
            "response": {"code": code, "enhanced_code": enhanced, "content": text}})
    }

    #[test]
    fn records_become_words() {
        let mut stories = Stories::default();
        let mut said = |record: &Value| stories.hear(record).pop();
        let line = said(&record("TransientFailure", "busy.test", 451, "busy\n")).expect("a line");
        assert_eq!(line, "you@busy.test        deferred   451 4.1.2 busy\\n: tried again by itself");
        let line = said(&record("Reception", "busy.test", 250, "")).expect("a line");
        assert!(line.ends_with("received   on disk here before the sender had his 250"), "{line}");
        assert_eq!(said(&record("Delivery", "elsewhere.test", 250, "")), None);
        assert_eq!(said(&record("AdminBounce", "busy.test", 551, "")), None);
        assert_eq!(said(&json!({"type": "Delivery"})), None);
        let batch =
            json!({"type": "Delivery", "recipient": ["you@busy.test"], "response": {"code": 250, "content": "ok"}});
        assert!(said(&batch).is_some_and(|line| line.ends_with("delivered  250 ok")));
    }

    #[test]
    fn all_is_over_and_as_expected_when_each_went_its_way() {
        let mut stories = Stories::default();
        for manner in Manner::ALL {
            assert!(!stories.are_over());
            for step in expected(manner).iter().copied() {
                let times = if step == Step::Deferred { 2 } else { 1 };
                (0..times).for_each(|_| _ = stories.add(manner, step, ""));
            }
        }
        assert!(stories.are_over());
        assert_eq!(stories.unexpected(), Vec::<String>::new());
    }

    /// The log comes a little later than what a receiver says.
    #[test]
    fn a_signature_is_told_behind_the_reception() {
        let mut stories = Stories::default();
        assert_eq!(stories.verified(Manner::Accepts, "pass"), Vec::<String>::new());
        stories.hear(&record("Reception", "busy.test", 250, ""));
        let said = stories.hear(&record("Reception", "accepts.test", 250, ""));
        assert!(said.len() == 2 && said[0].contains(" received ") && said[1].contains(" signed "), "{said:?}");
        assert_eq!(stories.verified(Manner::Accepts, "pass").len(), 1);
    }

    #[test]
    fn another_way_is_named() {
        let mut stories = Stories::default();
        stories.add(Manner::Refuses, Step::Received, "");
        stories.add(Manner::Refuses, Step::Delivered, "");
        stories.add(Manner::Accepts, Step::Received, "");
        stories.add(Manner::Accepts, Step::Delivered, "");
        assert!(!stories.is_over(Manner::Accepts), "nobody has said what the signature is worth");
        let said = stories.verified(Manner::Accepts, "fail").pop();
        assert!(said.is_some_and(|line| line.ends_with("the receiver says of the signature: fail")));
        let unexpected = stories.unexpected();
        assert_eq!(unexpected.len(), 5, "{unexpected:?}");
        assert!(
            unexpected.contains(&"refuses.test: expected received, bounced; it was received, delivered".to_owned())
        );
        assert!(unexpected[0].starts_with("accepts.test: expected received, signed, delivered"), "{unexpected:?}");
        stories.verified(Manner::Accepts, "pass");
        assert!(stories.is_as_expected(Manner::Accepts) && stories.is_over(Manner::Accepts));
    }
}
