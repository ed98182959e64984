//! The date of a header (RFC 5322 section 3.3), in UTC.

use clock::WallTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

/// `Thu, 01 Jan 1970 00:00:00 +0000`.
pub(crate) fn rfc5322(now: WallTime) -> String {
    let moment = OffsetDateTime::from_unix_timestamp(now.unix_secs()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // fails for years before 1900 only
    moment.format(&Rfc2822).unwrap_or_default()
}
