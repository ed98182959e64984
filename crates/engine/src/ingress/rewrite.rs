//! Replies as policy words them (`smtp_server_rewrite_response`).
//!
//! In: a session's output and where the replies in it end. Out: the output to be written, and whether one of its replies is a
//! 421 now that was none. What the session did stays done. A handler that fails, does not answer in time, or
//! makes a yes of a no changes nothing.

use policy::{ConnMeta, Event, Policy, PolicyError, Rewritten};
use smtp_server::Said;
use std::time::Duration;
use tokio::time::error::Elapsed;

/// Has policy look at every reply.
pub(crate) async fn rewritten(policy: &dyn Policy, conn: &ConnMeta, output: &[u8], said: Vec<Said>) -> (Vec<u8>, bool) {
    let (mut written, mut ends) = (Vec::with_capacity(output.len()), false);
    let mut start = 0;
    for Said { end, command } in said {
        let reply = &output[start..end];
        start = end;
        let Some((status, text)) = parsed(reply) else {
            written.extend_from_slice(reply);
            continue;
        };
        let asked = policy.smtp_server_rewrite_response(status, text.clone(), command, conn.clone());
        let answer = tokio::time::timeout(ANSWER_MAX, asked).await;
        let Rewritten { status: new_status, response } = heard(answer, status).unwrap_or_else(|why| {
            tracing::error!("{why}");
            Rewritten::default()
        });
        let (code, text) = (new_status.unwrap_or(status), response.unwrap_or(text));
        ends |= code == 421 && status != 421;
        write(code, &text, &mut written);
    }
    written.extend_from_slice(&output[start..]);
    (written, ends)
}

/// What policy answered in time, unless it says yes where the answer was no: nobody has what was refused.
fn heard(answer: Result<Result<Rewritten, PolicyError>, Elapsed>, status: u16) -> Result<Rewritten, String> {
    let event = Event::RewriteResponse.name();
    let rewritten =
        answer.map_err(|_| format!("{event}: no answer within {ANSWER_MAX:?}"))?.map_err(|e| e.to_string())?;
    match rewritten.status {
        Some(new) if status >= 400 && new < 400 => {
            Err(format!("{event}: returned {new} for a {status}: what was refused cannot be accepted any more"))
        }
        _ => Ok(rewritten),
    }
}

/// Status and text of a reply as it stands in the output.
fn parsed(reply: &[u8]) -> Option<(u16, String)> {
    let reply = str::from_utf8(reply).ok()?;
    let status = reply.get(..3)?.parse().ok()?;
    let lines: Vec<&str> = reply.lines().filter_map(|line| line.get(4..)).collect();
    Some((status, lines.join("\n")))
}

/// A reply of one line or several; whatever would end a line early becomes a blank.
fn write(code: u16, text: &str, output: &mut Vec<u8>) {
    let last = text.split('\n').count() - 1;
    for (number, line) in text.split('\n').enumerate() {
        let mark = if number < last { '-' } else { ' ' };
        output.extend_from_slice(format!("{code}{mark}").as_bytes());
        let line = line.strip_suffix('\r').unwrap_or(line);
        output.extend(line.bytes().map(|octet| if octet.is_ascii_control() { b' ' } else { octet }));
        output.extend_from_slice(b"\r\n");
    }
}

/// How long a reply may wait for its wording: a client that hears nothing sends the message again.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Answer;

    struct Wording;

    impl Policy for Wording {
        fn interest(&self) -> policy::Interest {
            policy::Interest::NONE
        }

        fn smtp_server_rewrite_response(
            &self,
            status: u16,
            response: String,
            command: Option<String>,
            _: ConnMeta,
        ) -> Answer<'_, Rewritten> {
            let answer = match command.as_deref() {
                None => Ok(Rewritten::default()),
                Some("EHLO a") => Ok(Rewritten { status: None, response: Some(response.replace("ONE", "TWO\nTHREE")) }),
                Some("DATA") => Ok(Rewritten { status: Some(250), response: Some("fine".to_owned()) }),
                Some("NOOP") => Ok(Rewritten { status: Some(421), response: Some("a\r\nb\rc".to_owned()) }),
                Some(other) => Err(policy::PolicyError::Script { event: "e", text: format!("{status} {other}") }),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    #[tokio::test]
    async fn each_reply_is_put_to_policy_with_what_it_answers() {
        let replies: [(&str, Option<&str>); 5] = [
            ("220 mx\r\n", None),
            ("250-mx\r\n250 ONE\r\n", Some("EHLO a")),
            ("250 fine\r\n", Some("MAIL")),
            ("451 4.3.0 no\r\n", Some("DATA")),
            ("250 x\r\n", Some("NOOP")),
        ];
        let (mut output, mut said) = (Vec::new(), Vec::new());
        for (reply, command) in replies {
            output.extend_from_slice(reply.as_bytes());
            said.push(Said { end: output.len(), command: command.map(str::to_owned) });
        }
        let (written, ends) = rewritten(&Wording, &ConnMeta::new(), &output, said).await;
        let expected = "220 mx\r\n250-mx\r\n250-TWO\r\n250 THREE\r\n250 fine\r\n451 4.3.0 no\r\n421-a\r\n421 b c\r\n";
        assert_eq!((String::from_utf8(written).expect("text").as_str(), ends), (expected, true));
    }
}
