//! The text of `/metrics`, read: families and their samples.
//!
//! In: text as [`crate::Metrics::text`] and [`crate::Exposition`] write it. Out: each family that has a sample, in order; or, for who must
//! not hold them all, one [`Line`] after the other. Other forms of metrics are made of this, so that all say the same. A line that is
//! nothing of all this is passed over.

use serde_json::{Value, json};

/// The series of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// The name.
    pub name: String,
    /// What it tells.
    pub help: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Its samples.
    pub samples: Vec<Sample>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// That of the family; those of a histogram end in `_bucket`, `_sum` or `_count`.
    pub name: String,
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// Null when it is none that JSON has.
    pub number: Value,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Line<'a> {
    /// What the family of that name tells.
    Help(&'a str, &'a str),
    /// Of which kind it is.
    Type(&'a str, &'a str),
    /// A sample of the family before it.
    Sample(Sample),
}

/// What the text says.
pub fn families(text: &str) -> Vec<Family> {
    let (mut families, mut family) = (Vec::new(), Family::default());
    for line in text.lines().filter_map(Line::parse) {
        families.extend(family.take(line).filter(Family::has_samples));
    }
    families.extend(Some(family).filter(Family::has_samples));
    families
}

impl<'a> Line<'a> {
    /// Without its end; none when it says nothing.
    pub fn parse(line: &'a str) -> Option<Line<'a>> {
        let Some(comment) = line.strip_prefix("# ") else { return Sample::parse(line).map(Line::Sample) };
        let mut words = comment.splitn(3, ' ');
        match (words.next()?, words.next()?, words.next()?) {
            ("HELP", name, help) => Some(Line::Help(name, help)),
            ("TYPE", name, kind) => Some(Line::Type(name, kind)),
            _ => None,
        }
    }
}

impl Family {
    /// Goes on with this line. What it was so far, when another family begins there.
    pub fn take(&mut self, line: Line<'_>) -> Option<Family> {
        match line {
            Line::Help(name, help) => {
                let next = Family { name: name.to_owned(), help: help.to_owned(), ..Family::default() };
                Some(std::mem::replace(self, next))
            }
            Line::Type(name, kind) => {
                let next = || Family { name: name.to_owned(), ..Family::default() };
                let ended = (self.name != name).then(|| std::mem::replace(self, next()));
                kind.clone_into(&mut self.kind);
                ended
            }
            Line::Sample(sample) => {
                self.samples.push(sample);
                None
            }
        }
    }

    fn has_samples(&self) -> bool {
        !self.samples.is_empty()
    }
}

impl Sample {
    /// `name{label="value",...} number`; nothing else is a sample.
    fn parse(line: &str) -> Option<Sample> {
        let (head, number) = line.rsplit_once(' ')?;
        let (name, labels) = match head.split_once('{') {
            None => (head, Vec::new()),
            Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
        };
        Some(Sample { name: name.to_owned(), labels, number: number_of(number) })
    }
}

/// Labels as the text writes them: a value's quotes, backslashes and line ends stand behind a backslash.
fn labels(text: &str) -> Option<Vec<(String, String)>> {
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"")?;
        let (mut value, mut escaped, mut end) = (String::new(), false, None);
        for (at, c) in behind.char_indices() {
            match (escaped, c) {
                (false, '"') => {
                    end = Some(at + 1);
                    break;
                }
                (false, '\\') => escaped = true,
                (true, 'n') => (escaped, _) = (false, value.push('\n')),
                _ => (escaped, _) = (false, value.push(c)),
            }
        }
        found.push((name.to_owned(), value));
        rest = behind[end?..].trim_start_matches(',');
    }
    Some(found)
}

pub(crate) fn number_of(text: &str) -> Value {
    text.parse::<i64>()
        .map_or_else(|_| text.parse::<f64>().map_or(Value::Null, |number| json!(number)), |whole| json!(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_read_in_order_and_those_without_samples_are_none() {
        let text = "# HELP a of  two words\n# TYPE a gauge\na{l=\"x\\n{\\\"}\"} 1\n# HELP b nothing\n# TYPE b counter\n\
            # TYPE c counter\nnonsense\nc 1.5\nc{broken 2\n";
        let found = families(text);
        let sample = |name: &str, labels: &[(&str, &str)], number: Value| Sample {
            name: name.to_owned(),
            labels: labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            number,
        };
        let family = |name: &str, help: &str, kind: &str, samples| Family {
            name: name.to_owned(),
            help: help.to_owned(),
            kind: kind.to_owned(),
            samples,
        };
        let expected = [
            family("a", "of  two words", "gauge", vec![sample("a", &[("l", "x\n{\"}")], json!(1))]),
            family("c", "", "counter", vec![sample("c", &[], json!(1.5))]),
        ];
        assert_eq!(found, expected);
    }
}
