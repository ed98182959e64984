//! The name of a site, read backwards: from `(a|b).x.y` to the hosts it was folded from.
//!
//! In: a site name as `route` makes it, or the name of a ready queue. Out: host names in lower case without final dots.
//! Cannot fail: what is no pattern is a host. Folding forgets which labels stood together, so of hosts that differ in
//! several places every combination is given; a site that would give more than [`HOSTS_MAX`] gives none.

use std::borrow::Cow;

/// The hosts a site name stands for; none for null MX, the empty name and names that stand for too many.
pub fn hosts_of_site(site: &str) -> Vec<String> {
    let site = folded(site);
    if let Some(list) = site.strip_prefix(MX_LIST_PREFIX) {
        let labels = list.split(',').take(HOSTS_MAX);
        let names = labels.map(|label| label.split_once('/').map_or(label, |(name, _)| name));
        return names.map(|name| folded(without_port(name)).into_owned()).filter(|name| !name.is_empty()).collect();
    }
    let name = without_port(&site).trim_end_matches('.');
    if name.is_empty() {
        return Vec::new();
    }
    // an address has no labels, and an IPv6 one colons
    if name.contains(':') || !name.contains(['(', '?']) {
        return vec![name.to_owned()];
    }
    expand(name)
}

/// The site in the name of a ready queue, `source->site@protocol`, as log records have it; other text is a site already.
pub fn site_of_ready_queue(name: &str) -> &str {
    match name.split_once("->") {
        Some((_, rest)) => rest.rsplit_once('@').map_or(rest, |(site, _)| site),
        None => name,
    }
}

/// The key of the block of a site that is named itself, not by one of its domains.
pub fn key_of_site(site: &str) -> String {
    format!("{KEY_PREFIX}{site}")
}

/// The name of the site that a key of a shaping file is about; none when the key is a domain.
pub(crate) fn site_of_key(key: &str) -> Option<&str> {
    key.strip_prefix(KEY_PREFIX)
}

/// The one form in which names are compared: lower case, without final dots.
pub(crate) fn folded(name: &str) -> Cow<'_, str> {
    let name = name.trim_end_matches('.');
    match name.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) {
        true => Cow::Owned(name.to_lowercase()),
        false => Cow::Borrowed(name),
    }
}

/// Positions a shorter host lacks stand at the left, so a host is the labels from some position to the right end.
fn expand(name: &str) -> Vec<String> {
    let parts: Vec<&str> = name.split('.').collect();
    let optional = parts.iter().take_while(|part| part.ends_with('?')).count().min(parts.len() - 1);
    let choices: Vec<Vec<&str>> = parts.iter().map(|part| labels(part)).collect();
    let of_start = |start: usize| choices[start..].iter().fold(1usize, |n, labels| n.saturating_mul(labels.len()));
    if (0..=optional).fold(0usize, |n, start| n.saturating_add(of_start(start))) > HOSTS_MAX {
        return Vec::new();
    }
    (0..=optional).flat_map(|start| combined(&choices[start..])).collect()
}

fn labels(part: &str) -> Vec<&str> {
    let part = part.strip_suffix('?').unwrap_or(part);
    match part.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(several) => several.split('|').collect(),
        None => vec![part],
    }
}

fn combined(choices: &[Vec<&str>]) -> Vec<String> {
    choices.iter().fold(Vec::new(), |hosts: Vec<String>, labels| match hosts.is_empty() {
        true => labels.iter().map(|label| (*label).to_owned()).collect(),
        false => hosts.iter().flat_map(|host| labels.iter().map(move |label| format!("{host}.{label}"))).collect(),
    })
}

fn without_port(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((host, port))
            if port.bytes().all(|b| b.is_ascii_digit())
                && !port.is_empty()
                && (host.ends_with(']') || !host.contains(':')) =>
        {
            host
        }
        _ => name,
    }
}

/// Hosts of one site. Real ones have up to some dozen; 5 hosts of different providers with 4 labels each fold to 625.
pub const HOSTS_MAX: usize = 1024;
/// How keys of sites begin; no domain has a colon.
const KEY_PREFIX: &str = "site:";
/// How the site of a queue with an `mx_list` begins.
const MX_LIST_PREFIX: &str = "mx_list:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_unfold_to_their_hosts() {
        for (site, want) in [
            ("mx.example.com.", &["mx.example.com"][..]),
            ("MX.Example.com", &["mx.example.com"]),
            ("(a|B).x.y", &["a.x.y", "b.x.y"]),
            ("(alt1|alt2)?.in.example.com", &["alt1.in.example.com", "alt2.in.example.com", "in.example.com"]),
            ("mx.(a|b).(com|net)", &["mx.a.com", "mx.a.net", "mx.b.com", "mx.b.net"]),
            ("mx?.example.com", &["mx.example.com", "example.com"]),
            (
                "x?.(y|z)?.example.com",
                &["x.y.example.com", "x.z.example.com", "y.example.com", "z.example.com", "example.com"],
            ),
            ("a.b?.c", &["a.b.c"]),
            ("a?.b?", &["a.b", "b"]),
            ("example.com:2025", &["example.com"]),
            ("(a|b).example.com:2025", &["a.example.com", "b.example.com"]),
            ("10.0.0.1", &["10.0.0.1"]),
            ("10.0.0.1:25", &["10.0.0.1"]),
            ("2001:db8::1", &["2001:db8::1"]),
            ("[2001:db8::1]:25", &["[2001:db8::1]"]),
            (
                "mx_list:z.relay.example.,A.relay.example:2025,sink.test/127.0.0.1:2525",
                &["z.relay.example", "a.relay.example", "sink.test"],
            ),
            (".", &[]),
            (":25", &[]),
            ("", &[]),
        ] {
            assert_eq!(hosts_of_site(site), want, "{site}");
        }
    }

    #[test]
    fn a_site_unfolds_at_the_bound_and_not_beyond() {
        let site = |count: usize| {
            let labels: Vec<String> = (0..count).map(|n| n.to_string()).collect();
            format!("({}).example", labels.join("|"))
        };
        assert_eq!(hosts_of_site(&site(HOSTS_MAX)).len(), HOSTS_MAX);
        assert!(hosts_of_site(&site(HOSTS_MAX + 1)).is_empty());
        let wide = vec![site(1000); 8].join(".");
        assert!(hosts_of_site(&wide).is_empty(), "the product overflows");
        let list = format!("mx_list:{}", vec!["a"; HOSTS_MAX + 1].join(","));
        assert_eq!(hosts_of_site(&list).len(), HOSTS_MAX);
    }

    #[test]
    fn ready_queues_have_a_site() {
        for (name, site) in [
            ("ip-1->(a|b).x.y@smtp_client", "(a|b).x.y"),
            ("ip-1->mx.example.com.@smtp_client", "mx.example.com."),
            ("mx.example.com.", "mx.example.com."),
            ("a->b", "b"),
            ("", ""),
        ] {
            assert_eq!(site_of_ready_queue(name), site, "{name}");
        }
    }
}
