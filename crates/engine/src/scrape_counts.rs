//! What policy and the look-up of hosts count of themselves, under KumoMTA's names.
//!
//! In: plain numbers of one moment. Out: families of the page. Where KumoMTA has a name for a cache, the cache here that does the same has it;
//! `lruttl_*` tell of all of them, `memoize_cache_*` and `dkim_signer_cache_*` of theirs once more, as in KumoMTA. Pure.

use net::dns::MxCounts;
use policy::{CacheCounts, PolicyCounts, SigningTimes, StateCounts};
use telemetry::{Exposition, Kind};

/// Adds all of it. Of the look-up of hosts, where there is one: its counts, and of how many domains hosts are kept.
pub(crate) fn policy(text: &mut Exposition, counts: PolicyCounts, mx: Option<(MxCounts, usize)>) {
    let PolicyCounts { states: of_states, memos, signers, signing: of_signing, redis } = counts;
    of_states.into_iter().for_each(|counts| states(text, counts));
    mx.iter().for_each(|(counts, _)| lookups(text, counts));
    let family = |name| format!("memoize_cache_{name}_count");
    for (name, help, of) in OF_CACHES {
        let series = memos.iter().map(|(cache, counts)| ([cache], of(counts)));
        text.family((&family(name), help, Kind::Counter), ["cache_name"], series);
    }
    if signers != CacheCounts::default() {
        for (name, number) in [
            ("dkim_signer_cache_hit", signers.hits),
            ("dkim_signer_cache_miss", signers.misses),
            ("dkim_signer_cache_lookup_count", signers.hits + signers.misses),
        ] {
            text.number((name, "signers that scripts asked for", Kind::Counter), number);
        }
    }
    of_signing.into_iter().for_each(|times| signing(text, times));
    let of_mx = mx.map_or_else(CacheCounts::default, |(mx, len)| CacheCounts {
        hits: mx.hits,
        misses: mx.misses,
        populated: mx.found + mx.failed,
        len: len as u64,
    });
    caches(text, &memos, [("dkim_signer_cache", signers), ("dns_resolver_mx", of_mx)]);
    let redis = redis.into_iter().map(|([who, status], times)| ([who, "query", status], times));
    let family = ("redis_operation_latency", "seconds that Redis took to answer");
    text.histogram(family, ["service", "operation", "status"], redis);
}

/// Adds all that it may come to tell, with any numbers.
pub(crate) fn describe(text: &mut Exposition) {
    let any = PolicyCounts {
        states: Some(StateCounts::default()),
        signers: CacheCounts { hits: 1, ..CacheCounts::default() },
        signing: Some(SigningTimes::default()),
        ..PolicyCounts::default()
    };
    policy(text, any, Some((MxCounts::default(), 0)));
}

fn states(text: &mut Exposition, StateCounts { alive, spare, loaded }: StateCounts) {
    text.number(("lua_count", "Lua states there are", Kind::Gauge), alive);
    text.number(("lua_spare_count", "Lua states that nobody uses now", Kind::Gauge), spare);
    text.number(("lua_load_count", "times the policy was loaded into a new Lua state", Kind::Counter), loaded);
}

fn lookups(text: &mut Exposition, MxCounts { hits, misses, found, failed, in_progress }: &MxCounts) {
    for (name, help, kind, number) in [
        ("dns_mx_resolve_cache_hit", "domains whose hosts were known", Kind::Counter, hits),
        ("dns_mx_resolve_cache_miss", "domains whose hosts were not", Kind::Counter, misses),
        ("dns_mx_resolve_in_progress", "domains that are being asked about", Kind::Gauge, in_progress),
        ("dns_mx_resolve_status_fail", "questions about domains that failed", Kind::Counter, failed),
        ("dns_mx_resolve_status_ok", "questions about domains that were answered", Kind::Counter, found),
    ] {
        text.number((name, help, kind), *number);
    }
}

fn signing(text: &mut Exposition, SigningTimes { creation, key_fetch, sign }: SigningTimes) {
    for (name, help, times) in [
        ("dkim_signer_creation", "seconds to make a signer", creation),
        ("dkim_signer_key_fetch", "seconds to read a key", key_fetch),
        ("dkim_signer_sign", "seconds to sign a message", sign),
    ] {
        text.histogram::<0, &str>((name, help), [], [([], times)]);
    }
}

/// Caches of scripts, and the program's own that were asked.
fn caches(text: &mut Exposition, memos: &[(String, CacheCounts)], own: [(&str, CacheCounts); 2]) {
    // A script may call its cache like one of ours.
    let own = own
        .into_iter()
        .filter(|(name, counts)| *counts != CacheCounts::default() && !memos.iter().any(|(memo, _)| memo == name));
    let all: Vec<(&str, CacheCounts)> =
        memos.iter().map(|(name, counts)| (name.as_str(), *counts)).chain(own).collect();
    for (name, help, of) in OF_CACHES {
        let series = all.iter().map(|(cache, counts)| ([*cache], of(counts)));
        text.family((&format!("lruttl_{name}_count"), help, Kind::Counter), ["cache_name"], series);
    }
    let series = all.iter().map(|(cache, counts)| ([*cache], counts.len));
    text.family(("lruttl_cache_size", "answers in a cache", Kind::Gauge), ["cache_name"], series);
}

/// Part of the name, help, where it is counted.
type OfCache = (&'static str, &'static str, fn(&CacheCounts) -> u64);
const OF_CACHES: [OfCache; 4] = [
    ("hit", "questions that a cache answered", |counts| counts.hits),
    ("lookup", "questions to a cache", |counts| counts.hits + counts.misses),
    ("miss", "questions that a cache did not answer", |counts| counts.misses),
    ("populated", "answers that were put into a cache", |counts| counts.populated),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use watched::Timing;

    #[test]
    fn a_policy_without_scripts_shows_only_the_look_up_of_hosts() {
        let mut text = Exposition::after(String::new(), "");
        policy(&mut text, PolicyCounts::default(), Some((MxCounts::default(), 0)));
        let page = text.into_text();
        let names: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        assert!(names.len() == 5 && names.iter().all(|name| name.starts_with("dns_mx_resolve_")), "{page}");
        let mut text = Exposition::after(String::new(), "");
        policy(&mut text, PolicyCounts::default(), None);
        assert_eq!(text.into_text(), "", "nor without one");
    }

    #[test]
    fn caches_are_told_by_name_each_once() {
        let counts = |hits| CacheCounts { hits, misses: 1, populated: 1, len: 1 };
        let took = Timing::new();
        took.took(Duration::from_millis(7));
        let all = PolicyCounts {
            states: Some(StateCounts { alive: 3, spare: 2, loaded: 9 }),
            memos: vec![("a\"b".to_owned(), counts(4)), ("dns_resolver_mx".to_owned(), counts(5))],
            signers: counts(6),
            signing: Some(SigningTimes { sign: took.so_far(), ..SigningTimes::default() }),
            redis: vec![(["scripts", "ok"], took.so_far())],
        };
        let mut text = Exposition::after(String::new(), "");
        policy(&mut text, all, Some((MxCounts { hits: 7, ..MxCounts::default() }, 1)));
        let page = text.into_text();
        for line in [
            "lua_count 3",
            "lua_spare_count 2",
            "lua_load_count 9",
            "memoize_cache_hit_count{cache_name=\"a\\\"b\"} 4",
            "memoize_cache_lookup_count{cache_name=\"a\\\"b\"} 5",
            "lruttl_hit_count{cache_name=\"dns_resolver_mx\"} 5",
            "lruttl_lookup_count{cache_name=\"dkim_signer_cache\"} 7",
            "lruttl_cache_size{cache_name=\"dkim_signer_cache\"} 1",
            "dkim_signer_cache_miss 1",
            "dkim_signer_sign_bucket{le=\"0.01\"} 1",
            "dkim_signer_creation_count 0",
            "dns_mx_resolve_cache_hit 7",
            "redis_operation_latency_count{service=\"scripts\",operation=\"query\",status=\"ok\"} 1",
        ] {
            assert_eq!(page.lines().filter(|other| *other == line).count(), 1, "{line} in {page}");
        }
        assert_eq!(page.matches("cache_name=\"dns_resolver_mx\"").count(), 9, "each family once: {page}");
    }
}
