//! What rules bring about, in the form in which KumoMTA's nodes read it.

use record::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// One thing that is in force until it expires.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// A ready queue is suspended.
    ReadyQSuspension(ReadySuspension),
    /// Scheduled queues are suspended.
    SchedQSuspension(ScheduledSuspension),
    /// What waits is bounced.
    SchedQBounce(ScheduledBounce),
    /// An option of a path has another value.
    Option(OptionChange),
}

/// A ready queue that is suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadySuspension {
    /// The rule, by its content.
    pub rule_hash: String,
    /// The whole name of the ready queue, `source->site@smtp_client` (KumoMTA behaviour).
    pub site_name: String,
    /// Why, for people.
    pub reason: String,
    /// The source of that queue.
    pub source: String,
    /// Until when.
    pub expires: Timestamp,
}

/// Scheduled queues that are suspended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledSuspension {
    /// The rule, by its content.
    pub rule_hash: String,
    /// Of this tenant.
    pub tenant: String,
    /// To this domain.
    pub domain: String,
    /// Of this campaign alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// Until when.
    pub expires: Timestamp,
}

/// Scheduled queues whose mail is bounced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledBounce {
    /// The rule, by its content.
    pub rule_hash: String,
    /// To this domain.
    pub domain: String,
    /// Of this tenant alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Of this campaign alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// Why, for people.
    pub reason: String,
    /// Until when.
    pub expires: Timestamp,
}

/// An option of the path from a source to a domain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OptionChange {
    /// The rule, by its content.
    pub rule_hash: String,
    /// To this domain; of several of one site, the one that came first.
    pub domain: String,
    /// To the whole of this site, which was the domain's then; without one to the domain alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// From this source.
    pub source: String,
    /// The option.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// When it was set last; of several for one option, the latest counts,
    pub set_at: Timestamp,
    /// and of several set at once the one with the highest number: that of the block that stands nearest to the domain.
    pub number: u64,
    /// Until when.
    pub expires: Timestamp,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |name, value: &Option<String>| {
            value.as_ref().map(|value| format!(" of {name} {value}")).unwrap_or_default()
        };
        let (what, reason) = match self {
            Effect::ReadyQSuspension(it) => (format!("ready queue {} is suspended", it.site_name), Some(&it.reason)),
            Effect::SchedQSuspension(it) => {
                let campaign = part("campaign", &it.campaign);
                (format!("mail{campaign} of tenant {} to {} is suspended", it.tenant, it.domain), Some(&it.reason))
            }
            Effect::SchedQBounce(it) => {
                let of = [part("campaign", &it.campaign), part("tenant", &it.tenant)].concat();
                (format!("mail{of} to {} is bounced", it.domain), Some(&it.reason))
            }
            Effect::Option(it) => {
                let to = it.site.as_ref().unwrap_or(&it.domain);
                (format!("{} from {} to {to} is {}", it.name, it.source, it.value), None)
            }
        };
        write!(f, "{what} until {}", self.expires())?;
        reason.map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

/// The kind of options, behind all others.
const OPTIONS: u8 = 3;

impl Identity {
    /// Those of options begin here.
    pub fn of_options() -> Identity {
        Identity(OPTIONS, Vec::new())
    }
}

/// What makes two effects the same one, perhaps with another end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity(u8, Vec<Option<String>>);

impl Effect {
    /// Until when.
    pub fn expires(&self) -> Timestamp {
        match self {
            Effect::ReadyQSuspension(it) => it.expires,
            Effect::SchedQSuspension(it) => it.expires,
            Effect::SchedQBounce(it) => it.expires,
            Effect::Option(it) => it.expires,
        }
    }

    /// True for the value of an option.
    pub(crate) fn is_option(&self) -> bool {
        matches!(self, Effect::Option(_))
    }

    /// Takes the place of an earlier one that is the same. Of a site the domain that came first stays, so that it is not another
    /// file with each response.
    pub(crate) fn renew(mut self, earlier: &Effect) -> Effect {
        if let (Effect::Option(it), Effect::Option(earlier)) = (&mut self, earlier) {
            it.domain.clone_from(&earlier.domain);
        }
        self
    }

    pub(crate) fn identity(&self) -> Identity {
        let some = |text: &String| Some(text.clone());
        match self {
            Effect::ReadyQSuspension(it) => Identity(0, vec![some(&it.site_name), some(&it.rule_hash)]),
            Effect::SchedQSuspension(it) => {
                Identity(1, vec![some(&it.domain), some(&it.tenant), it.campaign.clone(), some(&it.rule_hash)])
            }
            Effect::SchedQBounce(it) => {
                Identity(2, vec![some(&it.domain), it.tenant.clone(), it.campaign.clone(), some(&it.rule_hash)])
            }
            Effect::Option(it) => {
                let domain = it.site.is_none().then(|| it.domain.clone());
                let reach = it.site.clone();
                Identity(OPTIONS, vec![domain, reach, some(&it.source), some(&it.name), some(&it.rule_hash)])
            }
        }
    }
}
