//! The rules: names, who demands each, the reply that refuses for it, and what mends it.
//!
//! Owns [`Rule`] and [`Provider`]. One row of [`ROWS`] is the whole truth of a rule; the names never change, as policies,
//! counters and dashboards hold them. Nothing can fail.

/// A large provider of mailboxes that publishes rules for senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Gmail: the rules for senders of February 2024.
    Gmail,
    /// Yahoo and AOL: the same, of February 2024.
    Yahoo,
    /// Outlook.com: the rules for large senders of May 2025.
    Microsoft,
}

impl Provider {
    /// As findings name it.
    pub fn name(self) -> &'static str {
        match self {
            Provider::Gmail => "gmail",
            Provider::Yahoo => "yahoo",
            Provider::Microsoft => "microsoft",
        }
    }
}

macro_rules! rules {
    ($( $(#[doc = $doc:literal])+ $variant:ident, $name:literal, $by:expr, $code:literal, $fix:literal; )+) => {
        /// What is demanded of a message or its sender.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $( $(#[doc = $doc])+ $variant, )+ }

        impl Rule {
            /// All of them, in the order of findings.
            pub const ALL: &'static [Rule] = &[$(Rule::$variant),+];

            /// Their names, likewise.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            fn row(self) -> Row {
                match self {
                    $( Rule::$variant => Row { name: $name, by: $by, code: $code, fix: $fix }, )+
                }
            }
        }
    };
}

/// What there is to say of a rule.
struct Row {
    name: &'static str,
    by: &'static [Provider],
    code: &'static str,
    fix: &'static str,
}

const ALL: &[Provider] = &[Provider::Gmail, Provider::Yahoo, Provider::Microsoft];
/// Those who want whole RFC 5322 messages, one-click unsubscribing and names for addresses.
const BOTH: &[Provider] = &[Provider::Gmail, Provider::Yahoo];

rules! {
    /// One From with one address (RFC 5322 allows several; providers do not).
    FromSingle, "from_single", BOTH, "5.7.1", "send exactly one From field with exactly one address";
    /// Fields that may be there once are (RFC 5322 section 3.6).
    FieldRepeated, "field_repeated", BOTH, "5.7.1", "send this field once";
    /// There is a Message-ID that is one (RFC 5322 section 3.6.4).
    MessageId, "message_id", BOTH, "5.7.1", "send one Message-ID of the form <unique@your.domain>";
    /// There is a Date that is one, of about now (RFC 5322 section 3.6.1).
    Date, "date", BOTH, "5.7.1", "send one Date with the time of sending, as in Fri, 21 Nov 1997 09:55:06 -0600";
    /// No line is longer than 998 octets (RFC 5322 section 2.1.1).
    LineLength, "line_length", BOTH, "5.7.1", "fold header fields, and encode the body as quoted-printable or base64";
    /// The message is not too large.
    Size, "size", ALL, "5.3.4", "send a link instead of the attachment";
    /// There is a signature whose key is published.
    Dkim, "dkim", ALL, "5.7.20", "sign with DKIM, and publish the key at SELECTOR._domainkey.DOMAIN";
    /// A signature is of the author's domain.
    DkimAlignment, "dkim_alignment", ALL, "5.7.26", "sign with d= of the domain in From, or of its organisation";
    /// The sender's domain has an SPF record that can be evaluated.
    Spf, "spf", ALL, "5.7.23", "publish one SPF record (v=spf1 ...) for the domain of MAIL FROM";
    /// That record lets all sources send.
    SpfSource, "spf_source", ALL, "5.7.23", "add the address to the SPF record of the domain of MAIL FROM";
    /// The sender's domain is the author's.
    SpfAlignment, "spf_alignment", ALL, "5.7.26", "use a MAIL FROM of the domain in From, or of its organisation";
    /// The author's domain has a DMARC record.
    Dmarc, "dmarc", ALL, "5.7.26", "publish a DMARC record at _dmarc of the domain in From: at least v=DMARC1; p=none";
    /// Bulk mail can be unsubscribed from over HTTPS (RFC 2369, RFC 8058 section 3.1).
    Unsubscribe, "unsubscribe", BOTH, "5.7.1", "send List-Unsubscribe with an https URI: <https://...>";
    /// Bulk mail can be unsubscribed from with one click (RFC 8058 section 3.1).
    UnsubscribePost, "unsubscribe_post", BOTH, "5.7.1", "send List-Unsubscribe-Post: List-Unsubscribe=One-Click";
    /// The two fields are signed (RFC 8058 section 4).
    UnsubscribeSigned, "unsubscribe_signed", BOTH, "5.7.1", "add List-Unsubscribe and List-Unsubscribe-Post to the headers that are signed";
    /// Every source has a name that leads back to it (RFC 8601 section 3).
    Ptr, "ptr", BOTH, "5.7.25", "publish a PTR record for the address, and an address record for its name";
}

impl Rule {
    /// The rule of that name.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.name() == name)
    }

    /// Its name, for ever.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Who refuses or hides mail for it.
    pub fn providers(self) -> &'static [Provider] {
        self.row().by
    }

    /// The enhanced status code of a refusal (RFC 3463, RFC 7372).
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// What mends it.
    pub fn fix(self) -> &'static str {
        self.row().fix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_told_apart_and_found() {
        let names: BTreeSet<&str> = Rule::NAMES.iter().copied().collect();
        assert_eq!(names.len(), Rule::ALL.len());
        assert!(Rule::ALL.iter().all(|rule| Rule::named(rule.name()) == Some(*rule)));
        assert_eq!(Rule::named("From_Single"), None);
    }
}
