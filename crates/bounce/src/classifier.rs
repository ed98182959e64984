//! All rules at once: from a line of text to its class, in one pass over it.
//!
//! Owns [`Classifier`]. Rules are compiled into one set of regular expressions, searched by an automaton that is built
//! as texts need it: time is linear in the text and does not grow with the number of rules. Beside it stand two bounded
//! maps of answers, for texts that a rule matched and for those that none did.

use crate::UNCATEGORIZED;
use crate::answers::Answers;
use crate::boundaries;
use crate::error::RuleError;
use crate::rules::Rules;
use regex_automata::meta::{Config, Regex};
use regex_automata::{Input, MatchKind, PatternSet};
use regex_syntax::hir::Hir;
use std::sync::{Mutex, PoisonError};

/// Compiled rules and remembered answers. Shared by reference; the lock is held for a look-up only.
#[derive(Debug)]
pub struct Classifier {
    regex: Regex,
    rules: Vec<Rule>,
    files: Vec<String>,
    answers: Mutex<Memory>,
}

/// How many answers are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Texts that a rule matched.
    pub classified: usize,
    /// Texts that no rule matched.
    pub uncategorized: usize,
}

/// A rule that matched a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// The class it stands for.
    pub class: &'a str,
    /// The rule as written.
    pub rule: &'a str,
    /// The file it stands in.
    pub file: &'a str,
}

#[derive(Debug)]
struct Rule {
    class: String,
    text: String,
    file: usize,
}

#[derive(Debug)]
struct Memory {
    /// Index of the rule that decided.
    classified: Answers<u32>,
    uncategorized: Answers<()>,
}

impl Classifier {
    /// Compiles the rules of all files; earlier ones go first.
    ///
    /// # Errors
    /// [`RuleError::Rule`] for the first rule that is no regular expression, [`RuleError::TooMany`] and
    /// [`RuleError::TooLarge`] for rules that do not fit.
    pub fn new(files: Vec<Rules>, remembered: Remembered) -> Result<Classifier, RuleError> {
        let mut rules = Vec::new();
        let mut names = Vec::new();
        for (file, Rules { file: name, list }) in files.into_iter().enumerate() {
            rules.extend(list.into_iter().map(|(class, text)| Rule { class, text, file }));
            if rules.len() > RULES_MAX {
                return Err(RuleError::TooMany { file: name, count: rules.len(), max: RULES_MAX });
            }
            names.push(name);
        }
        let parsed = rules.iter().map(|rule| parse(rule, &names)).collect::<Result<Vec<Hir>, RuleError>>()?;
        let config = Config::new()
            .match_kind(MatchKind::All)
            .utf8_empty(true)
            .nfa_size_limit(Some(COMPILED_OCTETS_MAX))
            .hybrid_cache_capacity(AUTOMATON_OCTETS_MAX);
        let built = Regex::builder().configure(config).build_many_from_hir(&parsed);
        let regex = built.map_err(|e| RuleError::TooLarge { count: rules.len(), what: e.to_string() })?;
        let answers = Memory {
            classified: Answers::new(remembered.classified),
            uncategorized: Answers::new(remembered.uncategorized),
        };
        Ok(Classifier { regex, rules, files: names, answers: Mutex::new(answers) })
    }

    /// The class of one line of text: that of the first rule that matches, else [`UNCATEGORIZED`].
    pub fn classify(&self, text: &str) -> &str {
        let known = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let none = |answers: &mut Memory| answers.uncategorized.get(text).map(|()| None);
            answers.classified.get(text).map(Some).or_else(|| none(&mut answers))
        };
        let first = known.unwrap_or_else(|| {
            let first = self.matching(text).iter().next().map(|id| id.as_u32());
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            match first {
                Some(rule) => answers.classified.insert(text, rule),
                None => answers.uncategorized.insert(text, ()),
            }
            first
        });
        first.and_then(|rule| self.rules.get(rule as usize)).map_or(UNCATEGORIZED, |rule| &rule.class)
    }

    /// Every rule that matches, the one that decides first. Nothing is remembered.
    pub fn why(&self, text: &str) -> Vec<Match<'_>> {
        let found = self.matching(text);
        let rules = found.iter().filter_map(|id| self.rules.get(id.as_usize()));
        rules.map(|r| Match { class: &r.class, rule: &r.text, file: &self.files[r.file] }).collect()
    }

    /// How many rules there are.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    fn matching(&self, text: &str) -> PatternSet {
        let mut found = PatternSet::new(self.regex.pattern_len());
        let text = &text[..text.floor_char_boundary(MATCHED_OCTETS_MAX)];
        self.regex.which_overlapping_matches(&Input::new(text), &mut found);
        found
    }
}

fn parse(rule: &Rule, files: &[String]) -> Result<Hir, RuleError> {
    let parsed = regex_syntax::parse(&rule.text).map(boundaries::to_ascii);
    parsed.map_err(|e| RuleError::Rule {
        file: files.get(rule.file).cloned().unwrap_or_default(),
        class: rule.class.clone(),
        rule: rule.text.clone(),
        what: one_line(&e.to_string()),
    })
}

/// The last line says what is wrong; those before it show where, in two dimensions.
fn one_line(text: &str) -> String {
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Rules of all files together.
const RULES_MAX: usize = 65_536;
/// Memory of the compiled rules (octets).
const COMPILED_OCTETS_MAX: usize = 64 << 20;
/// Memory of the automaton that one thread builds as it goes (octets): beyond it the automaton is begun anew.
const AUTOMATON_OCTETS_MAX: usize = 8 << 20;

/// How much of a text is looked at (octets). A reply says what it means at its beginning; beyond ASCII the search is
/// slower, and a peer may answer with 64 KiB.
pub(crate) const MATCHED_OCTETS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn classifier(files: &[(&str, &str)]) -> Result<Classifier, RuleError> {
        let rules = files.iter().map(|(name, text)| Rules::read(name, text)).collect::<Result<_, _>>()?;
        Classifier::new(rules, Remembered { classified: 4, uncategorized: 4 })
    }

    #[test]
    fn the_first_rule_in_order_decides_and_every_match_is_told() {
        let first = "[rules]\nZulu = ['no such', '^550 ']\nAlpha = ['user']\n";
        let second = "[rules]\nAlpha = ['^550']\nOwn = ['(?i)MAILBOX']\n";
        let c = classifier(&[("a.toml", first), ("b.toml", second)]).expect("sound");
        for _ in 0..2 {
            assert_eq!(c.classify("550 5.1.1 no such user"), "Zulu");
            assert_eq!(c.classify("551 user moved"), "Alpha");
            assert_eq!(c.classify("451 mailbox busy"), "Own");
            assert_eq!(c.classify("451 later"), UNCATEGORIZED);
        }
        let why = c.why("550 user");
        let shown: Vec<_> = why.iter().map(|m| (m.class, m.rule, m.file)).collect();
        assert_eq!(shown, [("Zulu", "^550 ", "a.toml"), ("Alpha", "user", "a.toml"), ("Alpha", "^550", "b.toml")]);
        assert!(c.why("451 later").is_empty());
    }

    /// Also where a word stands beside a letter that ASCII does not have.
    #[test]
    fn word_boundaries_are_those_of_ascii() {
        let rules = "[rules]\nWord = ['\\bvoll\\b']\nInside = ['(x|\\Boll){1,2}']\nFold = ['(?i)\u{fc}ber']\n";
        let c = classifier(&[("a.toml", &rules.replace("\\\\", "\\"))]).expect("sound");
        for (text, class) in
            [("\u{fc}voll", "Word"), ("tvoll", "Inside"), ("\u{dc}BER", "Fold"), ("oll", UNCATEGORIZED)]
        {
            assert_eq!(c.classify(text), class, "{text}");
        }
    }

    #[test]
    fn an_error_names_file_class_and_rule() {
        let bad = "[rules]\nGood = ['a']\nBad = ['b', 'c(?=d)']\n";
        let error = classifier(&[("x.toml", "[rules]\nA=['a']"), ("y.toml", bad)]).expect_err("look-ahead").to_string();
        assert_eq!(
            error,
            "y.toml: class Bad, rule \"c(?=d)\": look-around, including look-ahead and look-behind, is not supported"
        );
        let large = "[rules]\nA = ['(?:\\w{1000}){1000}']\n";
        assert!(matches!(classifier(&[("z.toml", large)]), Err(RuleError::TooLarge { count: 1, .. })));
    }

    #[test]
    fn the_beginning_of_a_text_is_looked_at() {
        let c = classifier(&[("a.toml", "[rules]\nEnd = ['z$']\n")]).expect("sound");
        let text = |octets: usize| "x".repeat(octets - 1) + "z";
        assert_eq!(c.classify(&text(MATCHED_OCTETS_MAX)), "End");
        assert_eq!(c.classify(&text(MATCHED_OCTETS_MAX + 1)), UNCATEGORIZED);
        let split = "x".repeat(MATCHED_OCTETS_MAX - 1) + "\u{fc}";
        assert_eq!(c.classify(&split), UNCATEGORIZED, "cut inside a character");
    }

    #[test]
    fn no_rules_are_sound_and_match_nothing() {
        let c = classifier(&[("a.json", "{\"rules\":{}}")]).expect("sound");
        assert_eq!((c.classify("550 x"), c.rules()), (UNCATEGORIZED, 0));
    }

    #[test]
    fn rules_fit_at_the_bound_and_not_beyond() {
        let file = |count| Rules { file: "f.toml".into(), list: vec![("A".into(), "a".into()); count] };
        let new = |count| Classifier::new(vec![file(count)], Remembered { classified: 0, uncategorized: 0 });
        assert!(new(RULES_MAX).is_ok());
        assert!(matches!(new(RULES_MAX + 1), Err(RuleError::TooMany { count, .. }) if count == RULES_MAX + 1));
    }
}
