//! `GET /api/admin/trace-smtp-server/v1` and `trace-smtp-client/v1`: SMTP sessions as they happen, over a websocket.
//!
//! In: one frame of JSON that says which sessions. Out: an event a frame, until the other side ends it, takes nothing for ten
//! seconds, or the program drains. A request that is not understood, and one watcher too many, is told so and let go.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use engine::{Engine, Side, WATCHERS_MAX, Watch};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::IpAddr;
use std::time::Duration;

/// Sessions of clients of ours.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OfServer {
    source_addr: Option<Vec<String>>,
    terse: bool,
}

/// Sessions with servers that we deliver to.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OfClient {
    campaign: Option<Vec<String>>,
    tenant: Option<Vec<String>>,
    domain: Option<Vec<String>>,
    routing_domain: Option<Vec<String>>,
    egress_pool: Option<Vec<String>>,
    egress_source: Option<Vec<String>>,
    mail_from: Option<Vec<String>>,
    rcpt_to: Option<Vec<String>>,
    source_addr: Option<Vec<String>>,
    mx_host: Option<Vec<String>>,
    ready_queue: Option<Vec<String>>,
    mx_addr: Option<Vec<String>>,
    terse: bool,
}

pub(crate) async fn server(State(engine): State<Engine>, upgrade: WebSocketUpgrade) -> Response {
    upgraded(engine, upgrade, Side::Server)
}

pub(crate) async fn client(State(engine): State<Engine>, upgrade: WebSocketUpgrade) -> Response {
    upgraded(engine, upgrade, Side::Client)
}

/// Pages of other sites have been refused by then ([`crate::own_names`]).
fn upgraded(engine: Engine, upgrade: WebSocketUpgrade, side: Side) -> Response {
    upgrade.max_message_size(ASKED_OCTETS_MAX).on_upgrade(move |socket| serve(socket, engine, side))
}

async fn serve(mut socket: WebSocket, engine: Engine, side: Side) {
    let asked = match tokio::time::timeout(ASK_MAX, socket.recv()).await {
        Ok(Some(Ok(message @ (Message::Text(_) | Message::Binary(_))))) => message.into_text(),
        _ => return,
    };
    let watch = match asked.map_err(|error| error.to_string()).and_then(|text| wanted(side, &text)) {
        Ok(watch) => watch,
        Err(why) => return refuse(&mut socket, &engine, &why).await,
    };
    let Some(mut watching) = engine.watch(side, watch) else {
        return refuse(&mut socket, &engine, &format!("{WATCHERS_MAX} watch already: expected fewer")).await;
    };
    let mut pings = tokio::time::interval(PING_INTERVAL);
    loop {
        tokio::select! {
            event = watching.next() => if !is_sent(&mut socket, Message::Text(event.into())).await { return },
            // One that is gone without a word is found out so.
            _ = pings.tick() => if !is_sent(&mut socket, Message::Ping(Bytes::new())).await { return },
            // What else a watcher says means nothing; the library answers its pings.
            heard = socket.recv() => if !matches!(heard, Some(Ok(_))) { return },
            () = engine.draining() => {
                // The connection ends either way.
                is_sent(&mut socket, Message::Close(None)).await;
                return;
            }
        }
    }
}

/// What a request asks for; the error names the field, the value and what was expected.
fn wanted(side: Side, text: &str) -> Result<Watch, String> {
    match side {
        Side::Server => {
            let asked: OfServer = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let blocks = vec![("received_from", blocks("source_addr", asked.source_addr)?)];
            Ok(Watch { values: Vec::new(), blocks, terse: asked.terse })
        }
        Side::Client => {
            let asked: OfClient = serde_json::from_str(text).map_err(|error| error.to_string())?;
            let values = [
                ("campaign", asked.campaign),
                ("tenant", asked.tenant),
                ("domain", asked.domain),
                ("routing_domain", asked.routing_domain),
                ("egress_pool", asked.egress_pool),
                ("egress_source", asked.egress_source),
                ("sender", asked.mail_from),
                ("recipient", asked.rcpt_to),
                ("mx_host", asked.mx_host),
                ("ready_queue_name", asked.ready_queue),
            ];
            let values = values.into_iter().filter_map(|(name, wanted)| Some((name, wanted?))).collect();
            let blocks = vec![
                ("source_address", blocks("source_addr", asked.source_addr)?),
                ("mx_address", blocks("mx_addr", asked.mx_addr)?),
            ];
            Ok(Watch { values, blocks, terse: asked.terse })
        }
    }
}

fn blocks(field: &str, given: Option<Vec<String>>) -> Result<Vec<IpNet>, String> {
    let block = |text: &String| text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let wrong = |text: &String| format!("{field}: {text:?}: expected an address or a block, as 192.0.2.0/24");
    given.unwrap_or_default().iter().map(|text| block(text).map_err(|_| wrong(text))).collect()
}

async fn refuse(socket: &mut WebSocket, engine: &Engine, why: &str) {
    if is_sent(socket, Message::Text(engine.notice(why).into())).await {
        let reason = Utf8Bytes::from(why.chars().take(REASON_MAX).collect::<String>());
        is_sent(socket, Message::Close(Some(CloseFrame { code: close_code::POLICY, reason }))).await;
    }
}

async fn is_sent(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(SAY_MAX, socket.send(message)).await, Ok(Ok(())))
}

/// Time between two pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a watcher may take to say what he wants.
const ASK_MAX: Duration = Duration::from_secs(10);
/// How long he may take to take an event.
const SAY_MAX: Duration = Duration::from_secs(10);
/// Octets of his request.
const ASKED_OCTETS_MAX: usize = 256 << 10;
/// Characters of a close frame's reason, which has at most 123 octets (RFC 6455 section 5.5).
const REASON_MAX: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_kumomta() {
        let watch =
            wanted(Side::Server, r#"{"source_addr": ["192.0.2.1", "2001:db8::/32"], "terse": true}"#).expect("sound");
        let expected = ["192.0.2.1/32", "2001:db8::/32"].map(|block| block.parse().expect("a block")).to_vec();
        assert_eq!((watch.blocks, watch.terse), (vec![("received_from", expected)], true));
        let watch = wanted(Side::Client, r#"{"domain": ["a.test"], "tenant": [], "mx_addr": null}"#).expect("sound");
        let expected = vec![("tenant", Vec::new()), ("domain", vec!["a.test".to_owned()])];
        assert_eq!(watch.values, expected);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (side, text, parts) in [
            (Side::Server, r#"{"sorce": []}"#, ["sorce", "source_addr"]),
            (Side::Server, r#"{"source_addr": ["here"]}"#, ["source_addr: \"here\"", "192.0.2.0/24"]),
            (Side::Client, r#"{"mx_addr": ["1.2.3.4/33"]}"#, ["mx_addr", "1.2.3.4/33"]),
            (Side::Client, r#"{"domain": "a.test"}"#, ["a.test", "sequence"]),
            (Side::Client, "x", ["expected", "line 1"]),
        ] {
            let error = wanted(side, text).expect_err("refused");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
