//! The text of `/metrics`, read: families and their samples.
//!
//! In: text as [`crate::Metrics::text`] and [`crate::Exposition`] write it. Out: each family that has a sample, in order. Other forms of
//! metrics are made of this, so that all say the same. A line that is no sample is passed over.

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

/// What the text says.
pub fn families(text: &str) -> Vec<Family> {
    let (mut families, mut family) = (Vec::new(), Family::default());
    let mut end = |family: Family| {
        if !family.samples.is_empty() {
            families.push(family);
        }
    };
    for line in text.lines() {
        match line.strip_prefix("# ").map(|comment| comment.splitn(3, ' ').collect::<Vec<_>>()).as_deref() {
            Some(["HELP", name, help]) => {
                let next = Family { name: (*name).to_owned(), help: (*help).to_owned(), ..Family::default() };
                end(std::mem::replace(&mut family, next));
            }
            Some(["TYPE", name, kind]) => {
                if family.name != *name {
                    let next = Family { name: (*name).to_owned(), ..Family::default() };
                    end(std::mem::replace(&mut family, next));
                }
                family.kind = (*kind).to_owned();
            }
            _ => family.samples.extend(Sample::parse(line)),
        }
    }
    end(family);
    families
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
