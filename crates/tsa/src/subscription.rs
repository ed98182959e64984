//! A websocket that says what is in force, then what comes about.
//!
//! Who is too far behind to be told all is told what is in force once more. It ends when the other side does, takes nothing
//! for ten seconds, or the daemon stops.

use crate::Keeper;
use crate::answers::Suspension;
use crate::service::stopped;
use automation::Effect;
use axum::body::Bytes;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;

/// What a subscriber understands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// Suspensions and bounces.
    Events,
    /// Suspensions alone.
    Suspensions,
}

/// Serves a subscriber to its end.
pub(crate) async fn serve(mut socket: WebSocket, keeper: Keeper, form: Form, mut stop: watch::Receiver<bool>) {
    let mut pings = tokio::time::interval(PING_INTERVAL);
    'all: loop {
        // Before what is in force is looked at: nothing falls between.
        let mut news = keeper.follow();
        let known: Vec<Utf8Bytes> = keeper.in_force(|effects| effects.filter_map(|effect| form.text(effect)).collect());
        for text in known {
            if !say(&mut socket, text).await {
                return;
            }
        }
        loop {
            tokio::select! {
                effect = news.recv() => match effect {
                    Ok(effect) => {
                        let text = form.text(&effect);
                        if let Some(text) = text && !say(&mut socket, text).await {
                            return;
                        }
                    }
                    Err(RecvError::Lagged(_)) => continue 'all,
                    Err(RecvError::Closed) => return,
                },
                // One that is gone without a word is found out so.
                _ = pings.tick() => if !is_sent(&mut socket, Message::Ping(Bytes::new())).await { return },
                // What a subscriber says means nothing; the library answers its pings.
                heard = socket.recv() => if !matches!(heard, Some(Ok(_))) { return },
                () = stopped(&mut stop) => {
                    // The connection ends either way.
                    is_sent(&mut socket, Message::Close(None)).await;
                    return;
                }
            }
        }
    }
}

async fn say(socket: &mut WebSocket, text: Utf8Bytes) -> bool {
    is_sent(socket, Message::Text(text)).await
}

async fn is_sent(socket: &mut WebSocket, message: Message) -> bool {
    matches!(tokio::time::timeout(SAY_MAX, socket.send(message)).await, Ok(Ok(())))
}

impl Form {
    /// None for what this form does not speak of.
    fn text(self, effect: &Effect) -> Option<Utf8Bytes> {
        let json = match (self, effect) {
            (_, Effect::Option(_)) => return None,
            (Form::Events, effect) => serde_json::to_string(effect),
            (Form::Suspensions, effect) => serde_json::to_string(&Suspension::of(effect)?),
        };
        json.map(Utf8Bytes::from).inspect_err(|error| tracing::error!("{effect:?}: {error}")).ok()
    }
}

/// Time between two pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long a subscriber may take to take what is said.
const SAY_MAX: Duration = Duration::from_secs(10);
