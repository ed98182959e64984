//! site: the name of a set of MX hosts, as KumoMTA rolls it up.
//!
//! In:  host names with their final dot, in preference order, and the port written in the domain.
//! Out: one text. It is a key of ready queues and of shaping rules, so it must be the same everywhere and for ever.
//!
//! The rule (KumoMTA behaviour): one host keeps its plain name with the final dot. Several are folded label by label from
//! the right; each position lists its distinct values in first-seen order, `(a|b)` when there are several, with a `?` when
//! some host is too short to have that position. Positions are joined with dots, without a final one. A port sticks to the
//! last label. Cannot fail.

/// Folds `hosts` into a site name. `hosts` is bounded by its maker.
pub(crate) fn roll_up(hosts: &[&str], port: Option<u16>) -> String {
    let folded = match hosts {
        [one] => one.to_string(),
        several => fold(several),
    };
    match port {
        // the dot would stand between the last label and its port
        Some(port) => format!("{}:{port}", folded.strip_suffix('.').unwrap_or(&folded)),
        None => folded,
    }
}

fn fold(hosts: &[&str]) -> String {
    let mut positions: Vec<Position> = Vec::new();
    for host in hosts {
        for (depth, label) in host.trim_end_matches('.').rsplit('.').enumerate() {
            if depth == positions.len() {
                positions.push(Position::default());
            }
            positions[depth].add(label);
        }
    }
    let parts: Vec<String> = positions.iter().rev().map(|p| p.text(hosts.len())).collect();
    parts.join(".")
}

/// The labels found at one distance from the right end.
#[derive(Default)]
struct Position<'a> {
    distinct: Vec<&'a str>,
    hosts_having_it: usize,
}

impl<'a> Position<'a> {
    fn add(&mut self, label: &'a str) {
        self.hosts_having_it += 1;
        if !self.distinct.contains(&label) {
            self.distinct.push(label);
        }
    }

    fn text(&self, hosts_total: usize) -> String {
        let mut text = match self.distinct.as_slice() {
            [one] => one.to_string(),
            several => format!("({})", several.join("|")),
        };
        if self.hosts_having_it < hosts_total {
            text.push('?');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_names() {
        for (hosts, port, expected) in [
            // the example of the KumoMTA documentation
            (
                &[
                    "gmail-smtp-in.l.google.com.",
                    "alt1.gmail-smtp-in.l.google.com.",
                    "alt2.gmail-smtp-in.l.google.com.",
                    "alt3.gmail-smtp-in.l.google.com.",
                    "alt4.gmail-smtp-in.l.google.com.",
                ][..],
                None,
                "(alt1|alt2|alt3|alt4)?.gmail-smtp-in.l.google.com",
            ),
            (&["outlook-com.olc.protection.outlook.com."], None, "outlook-com.olc.protection.outlook.com."),
            (&["mx-aol.mail.gm0.yahoodns.net."], None, "mx-aol.mail.gm0.yahoodns.net."),
            (
                &["mta5.am0.yahoodns.net.", "mta6.am0.yahoodns.net.", "mta7.am0.yahoodns.net."],
                None,
                "(mta5|mta6|mta7).am0.yahoodns.net",
            ),
            (&["mx.a.com.", "mx.b.net."], None, "mx.(a|b).(com|net)"),
            (&["b.example.", "a.example."], None, "(b|a).example"),
            (&["example.com.", "mx.example.com."], None, "mx?.example.com"),
            (&["x.y.example.com.", "z.example.com.", "example.com."], None, "x?.(y|z)?.example.com"),
            (&["mx.example.com.", "mx.example.com."], None, "mx.example.com"),
            (&["example.com."], Some(2025), "example.com:2025"),
            (&["a.example.com.", "b.example.com."], Some(2025), "(a|b).example.com:2025"),
            (&["."], None, "."),
            (&["."], Some(25), ":25"),
        ] {
            assert_eq!(roll_up(hosts, port), expected);
        }
    }
}
