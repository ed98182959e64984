//! Prometheus text of families with a series for each queue, and of what crates count that know no registry, written from what is
//! counted elsewhere.
//!
//! Such families have as many series as there are destinations: kept in a registry each would cost a kilobyte for good.
//! In: names, labels and numbers at the moment of a scrape. Out: text that goes behind that of the registry. Pure.

use crate::registry::Described;
use std::fmt::Write as _;
use watched::Times;

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
    /// What was added, with or without series; of who asks for that.
    described: Option<Vec<Described>>,
}

impl<'a> Exposition<'a> {
    /// Goes on behind `text`.
    pub fn after(text: String, prefix: &'a str) -> Exposition<'a> {
        Exposition { text, prefix, described: None }
    }

    /// For who asks what there is to tell: families without series are in it too.
    pub fn describing() -> Exposition<'a> {
        Exposition { text: String::new(), prefix: "", described: Some(Vec::new()) }
    }

    /// Adds a family of series that differ in these labels; none at all when it has no series.
    pub fn family<const N: usize, L: AsRef<str>>(
        &mut self,
        (name, help, kind): (&str, &str, Kind),
        labels: [&str; N],
        series: impl IntoIterator<Item = ([L; N], u64)>,
    ) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        self.describe((name, help, kind), &labels);
        self.each((name, help, kind), series, |text, (values, number)| {
            let labels = labels.iter().zip(&values).map(|(label, value)| (*label, value.as_ref()));
            line(text, name, labels, format_args!("{number}"));
        });
    }

    /// Adds a family that is one number.
    pub fn number(&mut self, family: (&str, &str, Kind), number: u64) {
        self.family::<0, &str>(family, [], [([], number)]);
    }

    /// Adds a family of histograms, in seconds, that differ in these labels; none at all when it has no series.
    pub fn histogram<const N: usize, L: AsRef<str>>(
        &mut self,
        (name, help): (&str, &str),
        labels: [&str; N],
        series: impl IntoIterator<Item = ([L; N], Times)>,
    ) {
        self.describe((name, help, "histogram"), &labels);
        let names = ["bucket", "sum", "count"].map(|part| format!("{name}_{part}"));
        let [bucket, sum, count] = &names;
        self.each((name, help, "histogram"), series, |text, (values, times)| {
            let labels = || labels.iter().zip(&values).map(|(label, value)| (*label, value.as_ref()));
            let bounds = Times::BOUNDS.iter().map(|bound| bound.as_secs_f64().to_string());
            let bounds: Vec<String> = bounds.chain(["+Inf".to_owned()]).collect();
            let mut so_many = 0;
            for (bound, here) in bounds.iter().zip(times.buckets) {
                so_many += here;
                line(text, bucket, labels().chain([("le", bound.as_str())]), format_args!("{so_many}"));
            }
            line(text, sum, labels(), format_args!("{}", times.nanos as f64 / 1e9));
            line(text, count, labels(), format_args!("{so_many}"));
        });
    }

    /// All of it.
    pub fn into_text(self) -> String {
        self.text
    }

    /// What was added to one that describes, in that order.
    pub fn into_described(self) -> Vec<Described> {
        self.described.unwrap_or_default()
    }

    fn describe(&mut self, (name, help, kind): (&str, &str, &'static str), labels: &[&str]) {
        let Some(described) = &mut self.described else { return };
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        described.push(Described { name: name.to_owned(), kind, help: help.to_owned(), labels });
    }

    /// The head of a family, and what `write` makes of each of its series.
    fn each<T>(
        &mut self,
        (name, help, kind): (&str, &str, &str),
        series: impl IntoIterator<Item = T>,
        write: impl Fn(&mut String, T),
    ) {
        let mut series = series.into_iter().peekable();
        if !name.starts_with(self.prefix) || series.peek().is_none() {
            return;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        series.for_each(|one| write(&mut self.text, one));
    }
}

/// A series: its name, its labels if it has any, its number.
fn line<'l>(
    text: &mut String,
    name: &str,
    labels: impl Iterator<Item = (&'l str, &'l str)>,
    number: std::fmt::Arguments<'_>,
) {
    text.push_str(name);
    let mut before = '{';
    for (label, value) in labels {
        let _ = write!(text, "{before}{label}=\"");
        escape(text, value);
        text.push('"');
        before = ',';
    }
    if before == ',' {
        text.push('}');
    }
    let _ = writeln!(text, " {number}");
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
    use std::time::Duration;
    use watched::Timing;

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
    fn labels_stand_side_by_side_or_there_are_none() {
        let mut text = Exposition::after(String::new(), "");
        text.family(("n", "of all", Kind::Counter), ["provider", "pool"], [(["a\"b", "c"], 3)]);
        text.number(("m", "alone", Kind::Gauge), 4);
        let expected = "# HELP n of all\n# TYPE n counter\nn{provider=\"a\\\"b\",pool=\"c\"} 3\n\
            # HELP m alone\n# TYPE m gauge\nm 4\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn what_there_is_to_tell_does_not_need_series() {
        let mut text = Exposition::describing();
        text.family(("n", "of all", Kind::Counter), ["provider", "pool"], [(["", ""], 0); 0]);
        text.number(("m", "alone", Kind::Gauge), 4);
        text.histogram::<1, &str>(("took", "seconds"), ["service"], []);
        let told: Vec<_> = text.into_described().into_iter().map(|d| (d.name, d.kind, d.help, d.labels)).collect();
        let row = |name: &str, kind, help: &str, labels: &[&str]| {
            (name.to_owned(), kind, help.to_owned(), labels.iter().map(|label| (*label).to_owned()).collect())
        };
        assert_eq!(
            told,
            [
                row("n", "counter", "of all", &["provider", "pool"]),
                row("m", "gauge", "alone", &[]),
                row("took", "histogram", "seconds", &["service"]),
            ]
        );
        let mut text = Exposition::after(String::new(), "");
        text.number(("m", "alone", Kind::Gauge), 4);
        assert_eq!(text.into_described(), [], "who reads a page pays nothing for it");
    }

    #[test]
    fn histograms_look_like_those_of_the_registry() {
        let registry = prometheus::Registry::new();
        let options = || prometheus::HistogramOpts::new("took", "seconds");
        let labelled = prometheus::HistogramVec::new(options(), &["service"]).expect("a family");
        registry.register(Box::new(labelled.clone())).expect("the only one");
        let timing = Timing::new();
        // Sums of these are exact in either form.
        for millis in [0, 5, 250, 500, 20_000] {
            let took = Duration::from_millis(millis);
            labelled.with_label_values(&["a\"b"]).observe(took.as_secs_f64());
            timing.took(took);
        }
        let mut expected = String::new();
        prometheus::TextEncoder::new().encode_utf8(&registry.gather(), &mut expected).expect("encodes");

        let mut text = Exposition::after(String::new(), "");
        text.histogram(("took", "seconds"), ["service"], [(["a\"b"], timing.so_far())]);
        assert_eq!(text.into_text(), expected);
        let mut text = Exposition::after(String::new(), "");
        text.histogram::<0, &str>(("took", "seconds"), [], [([], timing.so_far())]);
        let text = text.into_text();
        assert!(
            text.contains("\ntook_bucket{le=\"0.005\"} 2\n") && text.ends_with("\ntook_sum 20.755\ntook_count 5\n"),
            "{text}"
        );
    }
}
