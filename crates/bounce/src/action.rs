//! What a report says of a recipient, in the words of RFC 3464 and in those for people.

use mime::PerRecipient;

/// What has become of a message for a recipient (RFC 3464 section 2.3.3); the worse, the later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It is in the mailbox.
    Delivered,
    /// It was handed to a server that tells nobody.
    Relayed,
    /// It is still being tried.
    Delayed,
    /// It is not tried any more.
    Failed,
}

impl Action {
    /// The field's value.
    pub fn word(self) -> &'static str {
        match self {
            Action::Delivered => "delivered",
            Action::Relayed => "relayed",
            Action::Delayed => "delayed",
            Action::Failed => "failed",
        }
    }

    /// Class of the status codes that go with it (RFC 3463 section 2).
    pub fn class(self) -> u8 {
        match self {
            Action::Delivered | Action::Relayed => 2,
            Action::Delayed => 4,
            Action::Failed => 5,
        }
    }

    /// Subject of a report in which it is the worst.
    pub fn subject(self) -> &'static str {
        match self {
            Action::Delivered => "Delivered: your message",
            Action::Relayed => "Relayed: your message",
            Action::Delayed => "Delayed: your message is still being tried",
            Action::Failed => "Undelivered: your message",
        }
    }

    /// The words for people of a report in which it is the worst, by the server `mta`.
    pub fn text(self, mta: &str, recipients: &[PerRecipient]) -> String {
        let opening = match self {
            Action::Failed => {
                "Your message could not be delivered to everybody; it is not tried again where it failed."
            }
            Action::Delayed => "Your message could not be delivered yet. It is still being tried: you need do nothing.",
            Action::Relayed => "Your message was handed to a server that does not tell whether it is delivered.",
            Action::Delivered => "Your message was delivered.",
        };
        let mut text = format!("This is the mail server {mta}.\n\n{opening}\n");
        for recipient in recipients.iter().take(RECIPIENTS_IN_TEXT_MAX) {
            let reply = recipient.diagnostic_code.as_ref().map(|d| d.value.as_str()).unwrap_or_default();
            text.push_str(&format!("\n  {}: {}\n    {reply}\n", recipient.final_recipient.value, recipient.action));
        }
        if recipients.len() > RECIPIENTS_IN_TEXT_MAX {
            text.push_str(&format!("\n  and {} more\n", recipients.len() - RECIPIENTS_IN_TEXT_MAX));
        }
        text
    }
}

/// Recipients told of in words; the fields have all of them.
const RECIPIENTS_IN_TEXT_MAX: usize = 100;
