//! Headers into metadata: KumoMTA's `import_x_headers` and `import_headers`.
//!
//! In: a [`HeaderView`] and which headers to take under which names. Out: (metadata name, value)
//! pairs for the caller to store, and which fields to remove. Can fail: a rule that contradicts
//! itself ([`ImportError`]). Deliberately writes no metadata and removes nothing itself.

use crate::view::{FieldView, HeaderView};

/// The metadata name of an imported header: lower case, `-` as `_`.
pub fn meta_name(header: &str) -> String {
    header.to_ascii_lowercase().replace('-', "_")
}

impl HeaderView<'_> {
    /// The headers `import_x_headers` takes: all `X-*` when `names` is `None`, else exactly those
    /// names. The first header of a name wins. Pairs of metadata name and decoded value.
    pub fn import_x(self, names: Option<&[&str]>) -> Vec<(String, String)> {
        let mut out: Vec<(String, String)> = Vec::new();
        for field in self.iter() {
            let wanted = match names {
                None => field.is_x(),
                Some(names) => names.iter().any(|n| field.is_named(n)),
            };
            let name = meta_name(&field.name_text());
            if wanted && out.iter().all(|(n, _)| *n != name) {
                out.push((name, field.decoded()));
            }
        }
        out
    }

    /// What `import_headers` takes by `rules`; for each header the first rule that matches decides.
    pub fn import(self, rules: &[ImportRule]) -> Imported {
        let mut imported = Imported::default();
        for field in self.iter() {
            let Some(rule) = rules.iter().find(|r| r.matches(&field)) else {
                continue;
            };
            imported.store(rule.meta_name(&field), field.decoded(), rule.take);
            let name = field.name_text();
            if rule.remove && !imported.remove.contains(&name) {
                imported.remove.push(name);
            }
        }
        imported
    }
}

/// Which of several headers of one name is imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportMatch {
    #[default]
    Last,
    First,
    /// All of them, as a list.
    All,
}

/// How a header name becomes a metadata name. Words are split at `-`, `_` and `.`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameTransform {
    /// `x_my_header`
    #[default]
    Snake,
    /// `x-my-header`
    Kebab,
    /// `xMyHeader`
    Camel,
    /// `XMyHeader`
    Pascal,
}

impl NameTransform {
    /// The header name in this form.
    pub fn apply(self, header: &str) -> String {
        let lower = header.to_ascii_lowercase();
        let words: Vec<&str> = lower.split(['-', '_', '.']).filter(|word| !word.is_empty()).collect();
        match self {
            NameTransform::Snake => words.join("_"),
            NameTransform::Kebab => words.join("-"),
            NameTransform::Camel => match words.split_first() {
                Some((first, rest)) => rest.iter().fold((*first).to_owned(), |out, w| out + &capital(w)),
                None => String::new(),
            },
            NameTransform::Pascal => words.iter().map(|word| capital(word)).collect(),
        }
    }
}

/// Why an import rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("import_headers: name is empty")]
    EmptyName,
    #[error("import_headers: name {name:?}: expected a name, or the beginning of names and a * behind it")]
    BadWildcard { name: String },
    #[error("import_headers: name {name:?} is a wildcard, so target {target:?} cannot be set")]
    TargetWithWildcard { name: String, target: String },
}

/// One entry of `import_headers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRule {
    pattern: String,
    wildcard: bool,
    take: ImportMatch,
    transform: NameTransform,
    target: Option<String>,
    remove: bool,
}

impl ImportRule {
    /// A rule for headers of that name; a name ending in `*` stands for all that begin so.
    ///
    /// # Errors
    /// An empty name, a `*` elsewhere, or a `target` together with a wildcard.
    pub fn new(
        name: &str,
        take: ImportMatch,
        transform: NameTransform,
        target: Option<String>,
        remove: bool,
    ) -> Result<ImportRule, ImportError> {
        let pattern = name.strip_suffix('*').unwrap_or(name);
        let wildcard = pattern.len() < name.len();
        let name_is_empty = name.is_empty();
        let name = || name.to_owned();
        match target {
            _ if name_is_empty => Err(ImportError::EmptyName),
            _ if pattern.is_empty() || pattern.contains('*') => Err(ImportError::BadWildcard { name: name() }),
            Some(target) if wildcard => Err(ImportError::TargetWithWildcard { name: name(), target }),
            target => Ok(ImportRule { pattern: pattern.to_owned(), wildcard, take, transform, target, remove }),
        }
    }

    fn matches(&self, field: &FieldView) -> bool {
        if !self.wildcard {
            return field.is_named(&self.pattern);
        }
        field.name.get(..self.pattern.len()).is_some_and(|head| head.eq_ignore_ascii_case(self.pattern.as_bytes()))
    }

    fn meta_name(&self, field: &FieldView) -> String {
        match &self.target {
            Some(target) => target.clone(),
            None => self.transform.apply(&field.name_text()),
        }
    }
}

/// What an import found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Metadata name, its values, and whether they are to be stored as a list.
    pub values: Vec<(String, Vec<String>, bool)>,
    /// Names of the headers to remove from the message.
    pub remove: Vec<String>,
}

impl Imported {
    fn store(&mut self, name: String, value: String, take: ImportMatch) {
        let place = self.values.iter().position(|(n, _, _)| *n == name);
        match (place, take) {
            (None, _) => self.values.push((name, vec![value], take == ImportMatch::All)),
            (Some(at), ImportMatch::All) => self.values[at].1.push(value),
            (Some(at), ImportMatch::Last) => self.values[at].1 = vec![value],
            (Some(_), ImportMatch::First) => {}
        }
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    match chars.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::HeaderBlock;

    const RAW: &[u8] = b"X-Tenant-ID: one\r\nx-tenant-id: two\r\nX-Campaign: =?utf-8?q?=C3=BC?=\r\nSubject: s\r\n\r\n";

    fn rule(name: &str, take: ImportMatch, target: Option<&str>, remove: bool) -> ImportRule {
        let target = target.map(str::to_owned);
        ImportRule::new(name, take, NameTransform::default(), target, remove).expect("valid rule")
    }

    fn import(rules: &[ImportRule]) -> Imported {
        HeaderBlock::parse(RAW).view(RAW).import(rules)
    }

    #[test]
    fn x_headers() {
        let block = HeaderBlock::parse(RAW);
        let pair = |n: &str, v: &str| (n.to_owned(), v.to_owned());
        let all = block.view(RAW).import_x(None);
        assert_eq!(all, [pair("x_tenant_id", "one"), pair("x_campaign", "\u{fc}")]);
        let listed = block.view(RAW).import_x(Some(&["SUBJECT", "absent"]));
        assert_eq!(listed, [pair("subject", "s")]);
    }

    #[test]
    fn rules_choose_first_last_or_all() {
        let values = |take| import(&[rule("X-Tenant-Id", take, None, false)]).values;
        let expect = |v: &[&str], list| {
            vec![("x_tenant_id".to_owned(), v.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(), list)]
        };
        assert_eq!(values(ImportMatch::First), expect(&["one"], false));
        assert_eq!(values(ImportMatch::Last), expect(&["two"], false));
        assert_eq!(values(ImportMatch::All), expect(&["one", "two"], true));
        assert_eq!(import(&[rule("absent", ImportMatch::All, None, true)]), Imported::default());
    }

    #[test]
    fn first_matching_rule_decides() {
        let rules = [
            rule("x-camp*", ImportMatch::Last, None, true),
            rule("x-*", ImportMatch::First, None, false),
            rule("subject", ImportMatch::Last, Some("title"), false),
        ];
        let imported = import(&rules);
        let names: Vec<&str> = imported.values.iter().map(|(n, _, _)| n.as_str()).collect();
        assert_eq!(names, ["x_tenant_id", "x_campaign", "title"]);
        assert_eq!(imported.remove, ["X-Campaign"]);
    }

    #[test]
    fn bad_rules() {
        let new = |name, target| ImportRule::new(name, ImportMatch::All, NameTransform::Snake, target, false);
        assert_eq!(new("", None), Err(ImportError::EmptyName));
        assert!(matches!(new("a*b", None), Err(ImportError::BadWildcard { .. })));
        assert!(matches!(new("a*", Some("t".into())), Err(ImportError::TargetWithWildcard { .. })));
    }

    #[test]
    fn transforms() {
        let all = |name| {
            [NameTransform::Snake, NameTransform::Kebab, NameTransform::Camel, NameTransform::Pascal]
                .map(|t| t.apply(name))
        };
        assert_eq!(all("X-My-HEADER"), ["x_my_header", "x-my-header", "xMyHeader", "XMyHeader"]);
        assert_eq!(all("single"), ["single", "single", "single", "Single"]);
        assert_eq!(meta_name("X-My-Header"), "x_my_header");
    }
}
