//! What a policy answers when it does not answer: a rejection it meant, or a fault it did not.

use smtp_wire::Reply;
use thiserror::Error;

/// How a connection ends after a rejection (KumoMTA's `kumo.disconnect` modes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Disconnect {
    /// Close only when the code is 421.
    #[default]
    If421,
    /// Send the reply, then `421 ... disconnecting due to previous error`, then close.
    FollowWith421,
    /// Send the reply and close.
    Force,
}

/// Why an event gave no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// `kumo.reject` or `kumo.disconnect`: the operator's decision, not a fault.
    #[error("{reply}")]
    Reject {
        /// What to answer.
        reply: Reply,
        /// Whether to close.
        disconnect: Disconnect,
    },
    /// The script failed; the text has its traceback. Peers hear `421 4.3.0`.
    #[error("event {event}: {text}")]
    Script {
        /// Which event.
        event: &'static str,
        /// Message and traceback.
        text: String,
    },
}

impl PolicyError {
    /// What others may hear of it, in one line: a reply, or an error without its traceback.
    pub fn in_one_line(&self) -> String {
        match self {
            PolicyError::Reject { reply, .. } => reply.to_single_line(),
            PolicyError::Script { .. } => {
                let text = self.to_string();
                let text = text.split("\nstack traceback:").next().unwrap_or_default();
                text.lines().collect::<Vec<_>>().join(" ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_without_their_traceback() {
        let text = "line 1\nline 2\nstack traceback:\n\t[C]: in function".to_owned();
        let error = PolicyError::Script { event: "custom_lua", text };
        assert_eq!(error.in_one_line(), "event custom_lua: line 1 line 2");
    }
}
