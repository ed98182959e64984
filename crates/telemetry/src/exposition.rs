//! Prometheus text of families with a series for each queue, written from what is counted elsewhere.
//!
//! Such families have as many series as there are destinations: kept in a registry each would cost a kilobyte for good.
//! In: names, labels and numbers at the moment of a scrape. Out: text that goes behind that of the registry. Pure.

use std::fmt::Write as _;

/// What a family's numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
}

/// Text in the making, limited to families whose name begins with a prefix.
#[derive(Debug)]
pub struct Exposition<'a> {
    text: String,
    prefix: &'a str,
}

impl<'a> Exposition<'a> {
    /// Goes on behind `text`.
    pub fn after(text: String, prefix: &'a str) -> Exposition<'a> {
        Exposition { text, prefix }
    }

    /// Adds a family of series that differ in these labels; none at all when it has no series.
    pub fn family<const N: usize, L: AsRef<str>>(
        &mut self,
        (name, help, kind): (&str, &str, Kind),
        labels: [&str; N],
        series: impl IntoIterator<Item = ([L; N], u64)>,
    ) {
        let mut series = series.into_iter().peekable();
        if !name.starts_with(self.prefix) || series.peek().is_none() {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let text = &mut self.text;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (values, number) in series {
            text.push_str(name);
            for (place, (label, value)) in labels.iter().zip(&values).enumerate() {
                let _ = write!(text, "{}{label}=\"", if place == 0 { '{' } else { ',' });
                escape(text, value.as_ref());
                text.push('"');
            }
            let _ = writeln!(text, "}} {number}");
        }
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.text
    }
}

/// A label's value as the text format wants it.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_look_like_those_of_the_registry() {
        let registry = prometheus::Registry::new();
        let family =
            prometheus::IntGaugeVec::new(prometheus::Opts::new("ready_count", "in ready queues"), &["service"]);
        let family = family.expect("a family");
        registry.register(Box::new(family.clone())).expect("the only one");
        let series = [("a\\b\"c\nd", 7), ("smtp_client:x->é@smtp_client", 1)];
        series.iter().for_each(|(name, number)| family.with_label_values(&[name]).set(*number));
        let mut expected = String::new();
        prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut expected).expect("encodes");

        let mut text = Exposition::after(String::new(), "ready");
        let series = || series.map(|(name, number)| ([name], number as u64));
        text.family(("ready_count", "in ready queues", Kind::Gauge), ["service"], series());
        text.family(("scheduled_count", "not asked for", Kind::Gauge), ["queue"], series());
        text.family(("ready_empty", "no series", Kind::Counter), ["queue"], [([""], 0); 0]);
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn labels_stand_side_by_side() {
        let mut text = Exposition::after(String::new(), "");
        text.family(("n", "of all", Kind::Counter), ["provider", "pool"], [(["a\"b", "c"], 3)]);
        assert_eq!(text.into_text(), "# HELP n of all\n# TYPE n counter\nn{provider=\"a\\\"b\",pool=\"c\"} 3\n");
    }
}
