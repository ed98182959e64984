//! What destinations answered last, for who asks why mail waits.
//!
//! In: a message's records in the log (`timeline`), or what a ready queue's destination refused last (`queues`). Out: one line with
//! code, text, time and host, and whose word it is: of what fails before a destination says anything this server writes the reply
//! itself, and nobody should look for it elsewhere. Both are asked of the server when somebody asks: nothing is kept for it. A server without a log, or
//! without such an endpoint, has nothing to say; that is no error.

use crate::output::{plain, shown};
use crate::search::TIMELINE;
use crate::server::Server;
use crate::times::moment;
use anyhow::Result;
use serde_json::{Value, json};
use time::OffsetDateTime;

/// An answer, and what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answered {
    /// What the fact is called.
    pub name: &'static str,
    pub text: String,
    pub material: Value,
}

impl Answered {
    /// The last answer about a message, as the log has it.
    ///
    /// # Errors
    /// The server does not answer, or does not let us ask.
    pub async fn about(server: &Server, id: &str, now: OffsetDateTime) -> Result<Option<Answered>> {
        let told = server.find(TIMELINE, &[("id", id)]).await?.unwrap_or_default();
        Ok(Answered::of_timeline(&told, now))
    }

    /// The last refusal of a ready queue.
    ///
    /// # Errors
    /// As of [`Answered::about`].
    pub async fn of_way(server: &Server, ready: &str, now: OffsetDateTime) -> Result<Option<Answered>> {
        let found = server.find(QUEUES, &[("by", "ready"), ("name", ready)]).await?.unwrap_or_default();
        Ok(Answered::of_refusal(&found["groups"][0]["last_reply"], now))
    }

    fn of_timeline(told: &Value, now: OffsetDateTime) -> Option<Answered> {
        let is_answer = |event: &&Value| event["type"] == "TransientFailure" && !event["record"]["response"].is_null();
        let event = told["events"].as_array()?.iter().rfind(is_answer)?;
        let (response, peer) = (&event["record"]["response"], &event["record"]["peer_address"]);
        let enhanced = &response["enhanced_code"];
        let enhanced = ["class", "subject", "detail"].map(|part| plain(&enhanced[part])).join(".");
        let enhanced = if enhanced.len() > 2 { format!("{enhanced} ") } else { String::new() };
        let mut text = format!("{} {enhanced}{}", plain(&response["code"]), cut(&response["content"]));
        if let Some(command) = response["command"].as_str() {
            text.push_str(&format!(", to {}", shown(command.trim_end())));
        }
        let is_own = is_own(&plain(&response["content"]));
        let (name, from) = if is_own { (OWN, "about") } else { ("last reply", "from") };
        match (peer["name"].as_str(), peer["addr"].as_str()) {
            (Some(host), Some(addr)) if !host.is_empty() => {
                text.push_str(&format!(", {from} {} ({addr})", shown(host)));
            }
            (_, Some(addr)) => text.push_str(&format!(", {from} {addr}")),
            _ => {}
        }
        text.push_str(&format!(", at {}", moment(&plain(&event["at"]), now)));
        let material = json!({"at": event["at"], "response": response, "peer_address": peer});
        Some(Answered { name, text, material })
    }

    fn of_refusal(reply: &Value, now: OffsetDateTime) -> Option<Answered> {
        let at = reply["at"].as_str()?;
        let times = reply["times"].as_u64().filter(|times| *times > 1);
        let times = times.map(|times| format!(", {times} times")).unwrap_or_default();
        let said = format!("{} {}", plain(&reply["code"]), cut(&reply["text"]));
        let text = format!("{said}, to mail of {}{times}, at {}", plain(&reply["queue"]), moment(at, now));
        let name = if is_own(&plain(&reply["text"])) { OWN } else { "refused" };
        Some(Answered { name, text, material: reply.clone() })
    }
}

/// Whether this server wrote it; an enhanced code may stand before.
fn is_own(text: &str) -> bool {
    let is_code = |word: &str| word.split('.').count() == 3 && word.split('.').all(|part| part.parse::<u16>().is_ok());
    let behind = text.split_once(' ').filter(|(word, _)| is_code(word)).map_or(text, |(_, behind)| behind);
    behind.starts_with(OWN_WORDS)
}

/// The begin of what somebody else wrote.
fn cut(text: &Value) -> String {
    let text = plain(text);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

/// What a reply is called that this server wrote itself.
const OWN: &str = "own reply";
/// With these each of them begins.
const OWN_WORDS: &str = "KumoMTA internal:";
/// Characters of an answer that are shown.
const SHOWN_CHARS_MAX: usize = 300;
/// What ready queues come to.
const QUEUES: &str = "/api/admin/queues/v1";

#[cfg(test)]
mod tests {
    use super::*;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-24 22:00:00 UTC);

    #[test]
    fn the_last_refusal_of_a_message_has_code_text_time_and_host() {
        let event = |kind: &str, code: u16, content: &str| {
            json!({"at": "2026-11-24T21:55:00Z", "type": kind, "record": {
                "response": {"code": code, "enhanced_code": {"class": 4, "subject": 7, "detail": 1}, "content": content,
                    "command": "RCPT TO:<a@b.test>\r\n"},
                "peer_address": {"name": "mx.b.test", "addr": "192.0.2.1"}}})
        };
        let told = json!({"events": [
            event("Reception", 250, "thanks"), event("TransientFailure", 450, "earlier"),
            event("TransientFailure", 451, "come\u{1b}[2J back"), event("Delayed", 400, "not an answer"),
        ]});
        let answered = Answered::of_timeline(&told, NOW).expect("one");
        let expected = "451 4.7.1 come\\u{1b}[2J back, to RCPT TO:<a@b.test>, from mx.b.test (192.0.2.1), \
            at 2026-11-24T21:55:00Z (5m ago)";
        assert_eq!((answered.name, &*answered.text), ("last reply", expected));
        assert_eq!(answered.material["response"]["code"], 451);
        let bare = json!({"events": [{"at": "2026-11-24T21:55:00Z", "type": "TransientFailure", "record": {
            "response": {"code": 400, "enhanced_code": null, "content": "x".repeat(400), "command": null},
            "peer_address": {"name": "", "addr": "192.0.2.1"}}}]});
        let text = Answered::of_timeline(&bare, NOW).expect("one").text;
        assert!(text.starts_with("400 xxx") && text.contains("x..., from 192.0.2.1, at "), "{text}");
        assert!(text.len() < SHOWN_CHARS_MAX + 100, "{text}");
        assert_eq!(Answered::of_timeline(&json!({"events": [event("Reception", 250, "ok")]}), NOW), None);
        assert_eq!(Answered::of_timeline(&Value::Null, NOW), None, "no such endpoint");
    }

    #[test]
    fn the_last_refusal_of_a_way_says_whose_mail_it_was() {
        let reply = json!({"at": "2026-11-24T21:00:00Z", "permanent": false, "queue": "b.test", "ready_queue": "s->b@smtp_client",
            "code": 421, "text": "4.3.2 closing", "times": 3});
        let Answered { name, text, .. } = Answered::of_refusal(&reply, NOW).expect("one");
        assert_eq!(name, "refused");
        assert_eq!(text, "421 4.3.2 closing, to mail of b.test, 3 times, at 2026-11-24T21:00:00Z (1h ago)");
        assert_eq!(Answered::of_refusal(&Value::Null, NOW), None);
    }

    #[test]
    fn what_this_server_says_itself_is_told_from_what_others_say() {
        let of = |content: &str, peer: Value| {
            let told = json!({"events": [{"at": "2026-11-24T21:55:00Z", "type": "TransientFailure", "record": {
                "response": {"code": 400, "enhanced_code": null, "content": content, "command": null}, "peer_address": peer}}]});
            let answered = Answered::of_timeline(&told, NOW).expect("one");
            (answered.name, answered.text)
        };
        let peer = json!({"name": "mx.b.test", "addr": "192.0.2.1"});
        let (name, text) = of("KumoMTA internal: connection refused", peer.clone());
        assert_eq!(name, "own reply");
        assert!(text.contains("refused, about mx.b.test (192.0.2.1), at "), "{text}");
        assert_eq!(of("no way was found", Value::Null).0, "last reply", "a script may have said it of somebody");
        assert_eq!(of("not now (KumoMTA internal: x)", peer).0, "last reply", "they may say what they like");
        let refusal = |text: &str| {
            let reply = json!({"at": "2026-11-24T21:00:00Z", "queue": "b.test", "code": 400, "text": text});
            Answered::of_refusal(&reply, NOW).expect("one").name
        };
        assert_eq!(refusal("4.4.1 KumoMTA internal: no session"), "own reply");
        assert_eq!(refusal("KumoMTA internal: no session"), "own reply");
        assert_eq!(refusal("4.4.1 no session"), "refused");
    }
}
