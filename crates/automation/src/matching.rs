//! From a log record to the rules it sets off.

use queue::QueueName;
use record::LogRecord;
use shaping::{LogRecordView, RuleMatches, Shaping, site_of_ready_queue};

/// The rules that the response of a record sets off, among those of where its mail went.
pub fn matching<'a>(shaping: &'a Shaping, record: &LogRecord) -> RuleMatches<'a> {
    let queue = QueueName::parse(&record.queue);
    let domain = match queue.effective_domain() {
        "" => {
            record.recipient.0.first().and_then(|recipient| recipient.rsplit_once('@')).map_or("", |(_, domain)| domain)
        }
        domain => domain,
    };
    shaping.match_rules(&LogRecordView { domain, site: site_of_ready_queue(&record.site), response: &record.response })
}
