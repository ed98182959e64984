//! `GET /api/admin/queues/v1`: what is queued, summed up; the largest first, a page at a time.
//!
//! In: `by`, what is summed up; `prefix` of its names, or one whole `name`; `domain`, `tenant`, `campaign` of scheduled queues, `source` and `provider`
//! of ready ones, that narrow it; `limit` and `cursor`. Out: groups, the sums of all that was asked about, and `next`, the cursor of the
//! page behind. Numbers change between two pages, so a group may be met twice or not at all.

use crate::answer::{Failed, Json};
use crate::overview::Reply;
use crate::query::Query;
use axum::extract::State;
use engine::{By, Engine, Group, Sums, SurveyPlace, SurveyQuestion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What may be asked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfQueues {
    /// What is summed up.
    #[schemars(extend("enum" = KINDS.map(|(name, _)| name)))]
    by: String,
    /// What names begin with.
    #[serde(default)]
    prefix: String,
    /// One whole name.
    name: Option<String>,
    /// Of the queues' names.
    domain: Option<String>,
    /// Of the queues' names.
    tenant: Option<String>,
    /// Of the queues' names.
    campaign: Option<String>,
    /// Of ready queues.
    source: Option<String>,
    /// Of ready queues.
    provider: Option<String>,
    /// How many at most.
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    /// Where to go on: `next` of an answer.
    cursor: Option<String>,
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Queues")]
pub(crate) struct Queues {
    by: String,
    groups: Vec<Named>,
    groups_total: usize,
    total: Numbers,
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueuesNamed")]
struct Named {
    /// Null for what has no tenant or campaign.
    name: Option<String>,
    #[serde(flatten)]
    numbers: Numbers,
    #[serde(flatten)]
    outcomes: Option<Outcomes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_reply: Option<Reply>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueuesNumbers")]
struct Numbers {
    /// Messages in all; of ready queues, those in them.
    count: u64,
    #[serde(flatten)]
    of: Places,
    queues: u64,
    suspended: u64,
    /// What those wait for whose time has come, by code.
    why: BTreeMap<&'static str, u64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueuesPlaces")]
#[serde(untagged)]
enum Places {
    Scheduled { waiting: u64, due: u64, out: u64 },
    Ready { connections: u64 },
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "QueuesOutcomes")]
struct Outcomes {
    delivered: u64,
    transient: u64,
    failed: u64,
}

pub(crate) async fn queues(
    State(engine): State<Engine>,
    Query(asked): Query<OfQueues>,
) -> Result<Json<Queues>, Failed> {
    let (by, question) = asked.understood().map_err(Failed::unprocessable)?;
    let kind = question.by;
    let found = engine.survey(question).await;
    Ok(Json(Queues {
        by,
        groups: found.groups.into_iter().map(|group| Named::of(kind, group)).collect(),
        groups_total: found.groups_total,
        total: Numbers::of(kind, found.total),
        next: found.next.map(|SurveyPlace { size: Reverse(size), hash }| format!("{size}-{hash:x}")),
    }))
}

impl OfQueues {
    /// The same, checked; an error names the field, its value and what was expected.
    fn understood(self) -> Result<(String, SurveyQuestion), String> {
        let OfQueues { by: kind, prefix, name, domain, tenant, campaign, source, provider, limit, cursor } = self;
        let by = KINDS.iter().find(|(known, _)| *known == kind).map(|(_, by)| *by).ok_or_else(|| {
            let known = KINDS.map(|(name, _)| name).join(", ");
            format!("invalid by {kind:?}: expected one of {known}")
        })?;
        let limit = limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(format!("invalid limit {limit}: expected an integer from 1 to {LIMIT_MAX}"));
        }
        let is_of_ready = matches!(by, By::Ready | By::Source | By::Provider);
        let of_scheduled = domain.is_some() || tenant.is_some() || campaign.is_some();
        let of_ready = source.is_some() || provider.is_some();
        if (is_of_ready && of_scheduled) || (!is_of_ready && of_ready) {
            let fit = if is_of_ready { "source and provider" } else { "domain, tenant and campaign" };
            return Err(format!("by {kind} is narrowed by {fit} alone"));
        }
        let after = cursor.map(|cursor| place(&cursor).ok_or(format!("invalid cursor {cursor:?}: expected a `next`")));
        let after = after.transpose()?;
        Ok((kind, SurveyQuestion { by, prefix, name, domain, tenant, campaign, source, provider, limit, after }))
    }
}

impl Named {
    fn of(by: By, group: Group) -> Named {
        let Group { name, sums, outcomes, refusal } = group;
        Named {
            name: Some(name).filter(|name| !name.is_empty()),
            numbers: Numbers::of(by, sums),
            outcomes: outcomes.map(|[delivered, transient, failed]| Outcomes { delivered, transient, failed }),
            last_reply: refusal.as_deref().map(Reply::of),
        }
    }
}

impl Numbers {
    fn of(by: By, sums: Sums) -> Numbers {
        let Sums { waiting, due, out, queues, suspended, why } = sums;
        let (count, of) = match by {
            By::Ready | By::Source | By::Provider => (due, Places::Ready { connections: out }),
            _ => (waiting + due + out, Places::Scheduled { waiting, due, out }),
        };
        Numbers { count, of, queues, suspended, why }
    }
}

fn place(cursor: &str) -> Option<SurveyPlace> {
    let (size, hash) = cursor.split_once('-')?;
    Some(SurveyPlace { size: Reverse(size.parse().ok()?), hash: u64::from_str_radix(hash, 16).ok()? })
}

/// What may be summed up.
const KINDS: [(&str, By); 7] = [
    ("domain", By::Domain),
    ("tenant", By::Tenant),
    ("campaign", By::Campaign),
    ("queue", By::Queue),
    ("ready", By::Ready),
    ("source", By::Source),
    ("provider", By::Provider),
];
/// Groups of a page when nothing is said, and at most.
const LIMIT_DEFAULT: usize = 50;
const LIMIT_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(query: &str) -> Result<SurveyQuestion, String> {
        let uri = format!("/?{query}").parse().expect("a path");
        let Query(asked) = Query::<OfQueues>::of(&uri)?;
        asked.understood().map(|(_, question)| question)
    }

    #[test]
    fn questions_are_checked_field_by_field() {
        let full = of("by=queue&tenant=shop&domain=a.test&prefix=x&limit=1000&cursor=17-ff").expect("sound");
        assert_eq!((full.by, full.limit, full.tenant.as_deref()), (By::Queue, 1000, Some("shop")));
        assert_eq!(full.after, Some(SurveyPlace { size: Reverse(17), hash: 255 }));
        assert_eq!(of("by=source").expect("sound").limit, LIMIT_DEFAULT);
        for (query, says) in [
            ("", "missing field `by`"),
            ("by=color", "invalid by \"color\": expected one of domain, tenant"),
            ("by=domain&limit=0", "invalid limit 0: expected an integer from 1 to 1000"),
            ("by=domain&limit=1001", "invalid limit 1001"),
            ("by=domain&cursor=soon", "invalid cursor \"soon\""),
            ("by=domain&source=ip-1", "by domain is narrowed by domain, tenant and campaign alone"),
            ("by=ready&tenant=shop", "by ready is narrowed by source and provider alone"),
            ("by=domain&color=red", "color"),
        ] {
            let error = of(query).expect_err(query);
            assert!(error.contains(says), "{query}: {error}");
        }
    }
}
