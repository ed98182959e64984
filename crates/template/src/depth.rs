//! How deep a source may go, found out before an engine reads it.
//!
//! Engines read and carry out a source by calls within calls, one for each operator, filter, `elif` or block, and a thread whose
//! stack ends takes the whole program with it. Counted is what may add a call; what stands beside something else is counted as if
//! it stood within it, so a bound is met by sources far longer than anybody writes. In: a source. Out: whether it is too deep.

/// Checks a Jinja source.
///
/// # Errors
/// What there is too much of, and how much there may be.
pub(crate) fn check_jinja(source: &str) -> Result<(), String> {
    let (mut rest, mut branches) = (source, 0);
    while let Some(at) = rest.find('{') {
        let tag = &rest[at..];
        let (end, is_statement) = match tag.as_bytes().get(1) {
            Some(b'{') => ("}}", false),
            Some(b'%') => ("%}", true),
            Some(b'#') => {
                rest = tag.split_once("#}").map_or("", |(_, behind)| behind);
                continue;
            }
            _ => {
                rest = &tag[1..];
                continue;
            }
        };
        let (operators, octets) = operators(&tag[2..], end);
        if operators > OPERATORS_MAX {
            return Err(too_many(operators, OPERATORS_MAX, "operators, filters and brackets in one tag"));
        }
        branches += usize::from(is_statement && first_word(&tag[2..]) == "elif");
        if branches > BRANCHES_MAX {
            return Err(too_many(branches, BRANCHES_MAX, "`elif`"));
        }
        rest = &tag[2 + octets..];
    }
    Ok(())
}

/// Checks a Handlebars source.
///
/// # Errors
/// What there is too much of, and how much there may be.
pub(crate) fn check_handlebars(source: &str) -> Result<(), String> {
    let (mut blocks, mut branches) = (0_usize, 0);
    for tag in source.split("{{").skip(1) {
        let tag = tag.split("}}").next().unwrap_or_default();
        let begins = tag.trim_start_matches(['{', '~']);
        match begins.as_bytes().first() {
            Some(b'#') => blocks += 1,
            Some(b'/') => (blocks, branches) = (blocks.saturating_sub(1), 0),
            Some(b'^') => branches += 1,
            _ if first_word(begins) == "else" => branches += 1,
            _ => {}
        }
        let brackets = tag.bytes().filter(|octet| matches!(octet, b'(' | b'[')).count();
        for (found, most, what) in [
            (blocks, BLOCKS_MAX, "blocks within one another"),
            (branches, BLOCKS_MAX, "`else` in one block"),
            (brackets, BLOCKS_MAX, "brackets in one tag"),
        ] {
            if found > most {
                return Err(too_many(found, most, what));
            }
        }
    }
    Ok(())
}

/// Operators up to the end of a tag, and the octets up to there with it. What stands in quotes is text.
fn operators(tag: &str, end: &str) -> (usize, usize) {
    let octets = tag.as_bytes();
    let (mut count, mut at, mut is_in_word) = (0, 0, false);
    while at < octets.len() {
        if tag.as_bytes()[at..].starts_with(end.as_bytes()) {
            return (count, at + end.len());
        }
        let octet = octets[at];
        match octet {
            b'"' | b'\'' => {
                at = behind_text(octets, at);
                continue;
            }
            b'.' if at > 0 && octets[at - 1].is_ascii_digit() => {}
            b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'|' | b'.' | b'[' | b'(' | b'{' | b'<' | b'>' | b'=' | b'!' => {
                count += 1;
            }
            _ => {}
        }
        let is_letter = octet.is_ascii_alphanumeric() || octet == b'_';
        if is_letter && !is_in_word {
            count += usize::from(WORDS.contains(&first_word(tag.get(at..).unwrap_or_default())));
        }
        is_in_word = is_letter;
        at += 1;
    }
    (count, at)
}

/// Where a text in quotes ends.
fn behind_text(octets: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < octets.len() {
        match octets[at] {
            b'\\' => at += 1,
            octet if octet == octets[start] => return at + 1,
            _ => {}
        }
        at += 1;
    }
    octets.len()
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '+'));
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default()
}

fn too_many(found: usize, most: usize, what: &str) -> String {
    format!("{found} {what}: expected at most {most}")
}

/// Words of Jinja that are operators.
const WORDS: [&str; 7] = ["not", "and", "or", "if", "else", "is", "in"];
/// Operators, filters and brackets in one tag of Jinja.
const OPERATORS_MAX: usize = 1000;
/// `elif` in one source of Jinja.
const BRANCHES_MAX: usize = 500;
/// Blocks of Handlebars within one another, `else` in one of them, and brackets in a tag.
const BLOCKS_MAX: usize = 64;

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
        for source in [&rows, "", "{{", "{{~#if a~}} {{~else~}} {{/if}}"] {
            assert_eq!(check_handlebars(source), Ok(()));
        }
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
            ("{{ 1", " if 1 else 1", " }}"),
            ("{{ 1", " is defined", " }}"),
            ("{{ 1", " in x", " }}"),
            ("{{ 1", "|e", " }}"),
            ("{{ a", ".b", " }}"),
            ("{{ a", "[0]", " }}"),
            ("{{ a", "()", " }}"),
            ("{{ ", "[", " }}"),
            ("{{ ", "{1:", " }}"),
            ("{{ 1", "<1", " }}"),
            ("{% set x = '}}' ", "|e", " %}"),
            ("{% if a %}", "{% elif 0 %}", "{% endif %}"),
            ("{% if a %}", "{%- elif 0 %}", "{% endif %}"),
        ] {
            let source = |count| format!("{head}{}{tail}", step.repeat(count));
            assert_eq!(check_jinja(&source(200)), Ok(()), "{step}");
            let error = check_jinja(&source(1001)).expect_err(step);
            assert!(error.contains("expected at most"), "{error}");
        }
        for step in ["{{else if x}}", "{{#if x}}", "{{~#if x}}", "{{^}}", "{{~else if x}}"] {
            let source = |count| format!("{{{{#if a}}}}{}", step.repeat(count));
            assert_eq!(check_handlebars(&source(60)), Ok(()), "{step}");
            assert!(check_handlebars(&source(65)).is_err(), "{step}");
        }
        assert!(check_handlebars(&format!("{{{{a {}", "(b ".repeat(65))).is_err());
    }
}
