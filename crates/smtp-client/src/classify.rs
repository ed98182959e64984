//! What a reply means for a recipient: KumoMTA's rules, in one table.
//!
//! | reply | meaning |
//! |---|---|
//! | 2xx to the final dot | delivered; 2xx to anything else decides nothing by itself |
//! | 3xx, 4xx | transient |
//! | 503 | transient: the session lost its place, not the message |
//! | other 5xx | permanent |
//! | 452, 552 or x.5.3 to RCPT | too many recipients: the next transaction, see below |
//!
//! "Too many recipients" sends a recipient into the next transaction only when one before it was
//! accepted in this one, so each transaction makes progress. For a lone recipient the reply is
//! transient, also 552 (RFC 5321 section 4.5.3.1.10).

use crate::Verdict;
use smtp_wire::Reply;

/// The verdict of a refusal.
pub(crate) fn refusal(reply: &Reply) -> Verdict {
    match reply.code {
        503 => Verdict::Transient,
        500..=599 => Verdict::Permanent,
        _ => Verdict::Transient,
    }
}

/// What a reply means that ends the delivery to a recipient, such as the one to the final dot of whole content.
pub fn verdict(reply: &Reply) -> Verdict {
    if reply.is_success() { Verdict::Delivered } else { refusal(reply) }
}

/// The verdict of a refused RCPT that no later transaction can help.
pub(crate) fn refused_rcpt(reply: &Reply) -> Verdict {
    if is_too_many(reply) { Verdict::Transient } else { refusal(reply) }
}

/// True when the server says that the transaction has recipients enough.
pub(crate) fn is_too_many(reply: &Reply) -> bool {
    let says_so = reply.enhanced.is_some_and(|e| (e.subject, e.detail) == (5, 3));
    !reply.is_success() && (matches!(reply.code, 452 | 552) || says_so)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        use Verdict::{Delivered, Permanent, Transient};
        for (reply, dot, rcpt, too_many) in [
            ("250 ok", Delivered, None, false),
            ("251 ok", Delivered, None, false),
            ("354 what", Transient, Some(Transient), false),
            ("421 bye", Transient, Some(Transient), false),
            ("450 busy", Transient, Some(Transient), false),
            ("451 busy", Transient, Some(Transient), false),
            ("452 full", Transient, Some(Transient), true),
            ("451 4.5.3 many", Transient, Some(Transient), true),
            ("550 no", Permanent, Some(Permanent), false),
            ("550 5.5.3 many", Permanent, Some(Transient), true),
            ("552 full", Permanent, Some(Transient), true),
            ("503 order", Transient, Some(Transient), false),
            ("554 no", Permanent, Some(Permanent), false),
            ("500 what", Permanent, Some(Permanent), false),
            ("599 odd", Permanent, Some(Permanent), false),
        ] {
            let (code, text) = reply.split_once(' ').expect("a code and a text");
            let reply = Reply::new(code.parse().expect("a number"), text);
            assert_eq!(verdict(&reply), dot, "{reply}");
            assert_eq!(is_too_many(&reply), too_many, "{reply}");
            if let Some(rcpt) = rcpt {
                assert_eq!(refused_rcpt(&reply), rcpt, "{reply}");
            }
        }
    }
}
