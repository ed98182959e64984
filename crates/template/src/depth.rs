//! How deep a source may go, found out before an engine reads it.
//!
//! Engines read and carry out a source by calls within calls, one for each operator, filter, `elif` or block, and a thread whose
//! stack ends takes the whole program with it. Counted is what may add a call; what stands beside something else is counted as if
//! it stood within it, so a bound is met by sources far longer than anybody writes. Jinja is read by the engine's own reader of
//! words: another one would be walked around. In: a source. Out: whether it is too deep.

use minijinja::machinery::{Token, tokenize};

/// Checks a Jinja source. What is no Jinja is said by the engine, which reads no further than this does.
///
/// # Errors
/// What there is too much of, and how much there may be.
pub(crate) fn check_jinja(source: &str) -> Result<(), String> {
    let (mut operators, mut branches, mut begins) = (0, 0, false);
    for token in tokenize(source, false, Default::default(), Default::default()) {
        let Ok((token, _)) = token else { return Ok(()) };
        match &token {
            Token::VariableStart | Token::BlockStart => operators = 0,
            Token::Ident("elif") if begins => branches += 1,
            Token::Ident(word) => operators += usize::from(WORDS.contains(word)),
            Token::TemplateData(_)
            | Token::VariableEnd
            | Token::BlockEnd
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_)
            | Token::Comma
            | Token::Colon => {}
            _ => operators += 1,
        }
        begins = matches!(token, Token::BlockStart);
        at_most(operators, OPERATORS_MAX, "operators, filters and brackets in one tag")?;
        at_most(branches, BRANCHES_MAX, "`elif`")?;
    }
    Ok(())
}

/// Checks a Handlebars source, of which all is counted as if it were nested: comments and what is quoted, too.
///
/// # Errors
/// What there is too much of, and how much there may be.
pub(crate) fn check_handlebars(source: &str) -> Result<(), String> {
    at_most(source.matches("{{").count(), TAGS_MAX, "tags")?;
    at_most(source.bytes().filter(|octet| matches!(octet, b'(' | b'[')).count(), TAGS_MAX, "brackets")
}

fn at_most(found: usize, most: usize, what: &str) -> Result<(), String> {
    (found <= most).then_some(()).ok_or_else(|| format!("more than {most} {what}: expected fewer"))
}

/// Words of Jinja that are operators.
const WORDS: [&str; 7] = ["not", "and", "or", "if", "else", "is", "in"];
/// Operators, filters and brackets in one tag of Jinja.
const OPERATORS_MAX: usize = 1000;
/// `elif` in one source of Jinja.
const BRANCHES_MAX: usize = 500;
/// Tags, and brackets, in one source of Handlebars: each may stand within the one before, at some 2 KB of stack.
const TAGS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_not_too_deep() {
        let list = format!("{{% set x = [{}] %}}", "1.5, 'a + b (c', \"{{ d }}\", ".repeat(5000));
        let page = "<p>{{ a.b|upper }} {# a + b #} {% if x > 1 %}y{% elif z %}w{% endif %} a + b ( { [</p>".repeat(400);
        for source in [&list, &page, "", "{", "{{", "{% raw %} {{ {% endraw %}", "a { b"] {
            assert_eq!(check_jinja(source), Ok(()), "{}", &source[..source.len().min(80)]);
        }
        let rows = "{{#each rows}}{{#if a}}{{b}}{{else}}{{{c}}}{{/if}}{{/each}}".repeat(500);
        assert_eq!(check_handlebars(&rows), Ok(()));
    }

    #[test]
    fn each_way_down_is_counted() {
        for (head, step, tail) in [
            ("{{ ", "not ", "1 }}"),
            ("{{ ", "-", "1 }}"),
            ("{{- ", "- ", "1"),
            ("{{ 1", "+1", " }}"),
            ("{{ 1", "~1", " }}"),
            ("{{ 1", "**1", " }}"),
            ("{{ 1", " and 1", " }}"),
            ("{{ 1", "\nor 1", " }}"),
            ("{{ 1", "or 1", " }}"),
            ("{{ 'a'", "or'a'", " }}"),
            ("{{ 1", " if 1 else 1", " }}"),
            ("{{ 1", " is defined", " }}"),
            ("{{ 1", " in x", " }}"),
            ("{{ 1", "|e", " }}"),
            ("{{ a", ".b", " }}"),
            ("{{ a", ".a1", " }}"),
            ("{{ a", ".1.1", " }}"),
            ("{{ a", "[0]", " }}"),
            ("{{ a", "()", " }}"),
            ("{{ ", "[", " }}"),
            ("{{ ", "{1:", " }}"),
            ("{{ 1", "<1", " }}"),
            ("{% set x = '}}' ", "|e", " %}"),
            ("{% raw %}{#{% endraw %}{{ ", "- ", "1 }}"),
            ("{% raw %}{{ \"{% endraw %}{{ ", "- ", "1 }}"),
            ("{% if a %}", "{% elif 0 %}", "{% endif %}"),
            ("{% if a %}", "{%- elif 0 %}", "{% endif %}"),
        ] {
            let source = |count| format!("{head}{}{tail}", step.repeat(count));
            assert_eq!(check_jinja(&source(200)), Ok(()), "{step}");
            let error = check_jinja(&source(1001)).expect_err(step);
            assert!(error.contains("expected fewer"), "{error}");
        }
        for step in ["{{else if x}}", "{{#if x}}", "{{~#if x}}", "{{^}}", "{{#if x}}{{!-- {{/if}} --}}", "{{a (b "] {
            assert_eq!(check_handlebars(&step.repeat(3000)), Ok(()), "{step}");
            assert!(check_handlebars(&step.repeat(10_001)).is_err(), "{step}");
        }
    }
}
