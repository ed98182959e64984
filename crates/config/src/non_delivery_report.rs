//! What `kumo.generate_rfc3464_message` is told.

use crate::choices::EnclosedMessage;
use crate::options::options;

options! {
    /// `kumo.generate_rfc3464_message`
    pub struct NonDeliveryReport {
        /// What the sender gets back.
        include_original_message: EnclosedMessage = EnclosedMessage::No;
        /// Report what was too old.
        enable_expiration: bool = false;
        /// Report what was refused.
        enable_bounce: bool = false;
        /// Who reports.
        reporting_mta: ReportingMta;
        /// The same record makes the same report, to the octet: for tests.
        stable_content: bool = false;
    }
}

options! {
    /// `reporting_mta` (RFC 3464 section 2.2.2)
    pub struct ReportingMta {
        /// The kind of name, such as `dns`.
        mta_type: String;
        /// The name; reports are from `mailer-daemon@` it.
        name: String;
    }
}
