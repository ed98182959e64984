//! What was expected against what was found: arrivals and log records, each once, in any order.

use crate::corpus::case::Block;
use crate::corpus::pattern::Pattern;
use crate::corpus::remote::Arrival;
use serde_json::Value;

/// Compares what arrived at one remote with all that should have.
pub fn arrivals(remote: &str, expected: &[&Block], found: &[Arrival]) -> Vec<String> {
    let fits = |block: &Block, arrival: &Arrival| block.fits(|name, pattern| is_in(arrival, name, pattern));
    compare(&format!("arrivals at {remote}"), expected, found, fits, describe)
}

/// Compares the log. Receptions and deliveries may go without saying, but for types that are `none`; records of any other
/// type may not.
pub fn records(expected: &[Block], none: &[String], found: &[Value]) -> Vec<String> {
    let mut kinds: Vec<&str> = expected.iter().map(|block| block.kind.as_str()).collect();
    kinds.extend(none.iter().map(String::as_str));
    kinds.extend(found.iter().filter_map(|record| record["type"].as_str()).filter(|kind| !QUIET.contains(kind)));
    kinds.sort_unstable();
    kinds.dedup();
    let of_kind = |kind: &str| {
        let expected: Vec<&Block> = expected.iter().filter(|block| block.kind == kind).collect();
        let found: Vec<Value> = found.iter().filter(|record| record["type"] == kind).cloned().collect();
        let fits = |block: &Block, record: &Value| block.fits(|name, pattern| pattern.matches(&field(record, name)));
        compare(&format!("{kind} records"), &expected, &found, fits, Value::to_string)
    };
    kinds.into_iter().flat_map(of_kind).collect()
}

fn compare<T>(
    what: &str,
    expected: &[&Block],
    found: &[T],
    fits: impl Fn(&Block, &T) -> bool,
    describe: impl Fn(&T) -> String,
) -> Vec<String> {
    let mut free: Vec<&T> = found.iter().collect();
    if expected.len() == found.len() && assign(expected, &mut free, &fits) {
        return Vec::new();
    }
    let mut text = format!("{what}: expected {}, found {}", expected.len(), found.len());
    for block in expected {
        let mark = if found.iter().any(|item| fits(block, item)) { "" } else { "  (fits none)" };
        text += &format!("\n  expected  {}{mark}", block.text());
    }
    for item in found {
        text += &format!("\n  found     {}", describe(item));
    }
    vec![text]
}

/// True when every block can have an item of its own.
fn assign<T>(expected: &[&Block], free: &mut Vec<&T>, fits: &impl Fn(&Block, &T) -> bool) -> bool {
    let Some((block, others)) = expected.split_first() else { return true };
    for at in 0..free.len() {
        if fits(block, free[at]) {
            let item = free.remove(at);
            if assign(others, free, fits) {
                return true;
            }
            free.insert(at, item);
        }
    }
    false
}

fn is_in(arrival: &Arrival, name: &str, pattern: &Pattern) -> bool {
    if let Some(absent) = name.strip_prefix("no header ") {
        return header(arrival, absent).is_empty();
    }
    if let Some(present) = name.strip_prefix("header ") {
        return header(arrival, present).iter().any(|value| pattern.matches(value));
    }
    let behind_header = arrival.content.iter().position(String::is_empty).map_or(arrival.content.len(), |at| at + 1);
    let text = match name {
        "from" => path(&arrival.mail),
        "to" => arrival.rcpt.iter().map(|command| path(command)).collect::<Vec<_>>().join(", "),
        "ehlo" => arrival.ehlo.clone(),
        "peer" => arrival.peer.clone(),
        "connection" => arrival.connection.to_string(),
        "commands" => arrival.commands.join(LINE_END),
        "mail" => arrival.mail.clone(),
        "rcpt" => arrival.rcpt.join(", "),
        "content" => arrival.content.join(LINE_END),
        "body" => arrival.content[behind_header..].join(LINE_END),
        _ => unreachable!("the parser knows the fields"),
    };
    pattern.matches(&text)
}

/// The values of all fields of this name, unfolded.
fn header(arrival: &Arrival, name: &str) -> Vec<String> {
    let mut values: Vec<(String, String)> = Vec::new();
    for line in arrival.content.iter().take_while(|line| !line.is_empty()) {
        if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), values.last_mut()) {
            value.push_str(line);
        } else if let Some((name, value)) = line.split_once(':') {
            values.push((name.trim_end().to_ascii_lowercase(), value.trim_start().to_owned()));
        }
    }
    let name = name.to_ascii_lowercase();
    values.into_iter().filter(|(found, _)| *found == name).map(|(_, value)| value).collect()
}

/// What stands between the angle brackets.
fn path(command: &str) -> String {
    let inner = command.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inner.map_or(command, |(path, _)| path).to_owned()
}

/// A field of a record by its path, as text: `meta.tenant`, `response.enhanced_code.class`; `null` when absent.
fn field(record: &Value, path: &str) -> String {
    let mut value = record;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(found) = value.get(rest) {
            value = found;
            break;
        }
        let (name, inner) = rest.split_once('.').unwrap_or((rest, ""));
        value = value.get(name).unwrap_or(&Value::Null);
        rest = inner;
    }
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn describe(arrival: &Arrival) -> String {
    let Arrival { ehlo, peer, connection, commands: _, mail, rcpt, content } = arrival;
    format!(
        "{ehlo} from {peer}, connection {connection}: {mail} {rcpt:?}\n            {}",
        content.join("\n            ")
    )
}

/// Every case with mail has these.
const QUIET: [&str; 2] = ["Reception", "Delivery"];
/// What stands for the end of a line of content.
const LINE_END: &str = " / ";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn block(kind: &str, fields: &[(&str, &str)]) -> Block {
        let fields = fields.iter().map(|(name, text)| ((*name).to_owned(), Pattern::new(text))).collect();
        Block { kind: kind.to_owned(), fields }
    }

    fn arrival() -> Arrival {
        let lines = ["Subject: a", "\tb", "X-A: 1", "x-a: 2", "", "One.", "", "Two."];
        Arrival {
            ehlo: "e.test".to_owned(),
            mail: "MAIL FROM:<a@b.test> SIZE=9".to_owned(),
            rcpt: vec!["RCPT TO:<c@d.test>".to_owned(), "RCPT TO:<e@d.test>".to_owned()],
            content: lines.map(str::to_owned).into(),
            connection: 1,
            ..Arrival::default()
        }
    }

    #[test]
    fn an_arrival_is_compared_by_its_fields() {
        let rows = [
            ("from", "a@b.test", true),
            ("from", "a@b", false),
            ("to", "c@d.test, e@d.test", true),
            ("to", "c@d.test", false),
            ("mail", "* SIZE=9", true),
            ("header subject", "a\tb", true),
            ("header X-A", "2", true),
            ("header X-A", "3", false),
            ("header Two", "*", false),
            ("no header X-B", "", true),
            ("no header X-A", "", false),
            ("body", "One. /  / Two.", true),
            ("body", "One.", false),
            ("connection", "2", false),
        ];
        for (name, text, fits) in rows {
            let wanted = block("sink", &[(name, text)]);
            assert_eq!(arrivals("sink", &[&wanted], &[arrival()]).is_empty(), fits, "{name}: {text}");
        }
    }

    #[test]
    fn more_and_less_than_expected_are_both_found() {
        let wanted = block("sink", &[("ehlo", "e.test")]);
        assert!(arrivals("sink", &[&wanted], &[arrival(), arrival()])[0].contains("expected 1, found 2"));
        assert!(arrivals("sink", &[&wanted], &[])[0].contains("(fits none)"));
        assert!(arrivals("sink", &[], &[arrival()])[0].contains("expected 0, found 1"));
        assert!(arrivals("sink", &[], &[]).is_empty());
    }

    #[test]
    fn each_expectation_needs_an_item_of_its_own() {
        let any = block("sink", &[("from", "*b.test")]);
        let other = Arrival { mail: "MAIL FROM:<z@b.test>".to_owned(), ..arrival() };
        let z = block("sink", &[("from", "z@b.test")]);
        // The first block could take what only the second one fits.
        assert!(arrivals("sink", &[&any, &z], &[other.clone(), arrival()]).is_empty());
        assert_eq!(arrivals("sink", &[&any, &z], &[arrival(), arrival()]).len(), 1);
        assert_eq!(arrivals("sink", &[&z, &z], &[other, arrival()]).len(), 1);
    }

    #[test]
    fn records_of_types_that_nobody_mentioned_are_too_many_but_for_the_usual() {
        let reception = json!({"type": "Reception", "queue": "a"});
        let bounce = json!({"type": "Bounce", "response": {"code": 550, "enhanced_code": null}, "meta": {"x.y": "z"}});
        assert!(records(&[], &[], std::slice::from_ref(&reception)).is_empty());
        assert!(records(&[], &[], std::slice::from_ref(&bounce))[0].contains("expected 0, found 1"));
        let rows = [
            ("response.code", "550", true),
            ("response.code", "551", false),
            ("response.enhanced_code", "null", true),
            ("meta.x.y", "z", true),
            ("meta.none", "null", true),
            ("meta.none", "z", false),
        ];
        for (name, text, fits) in rows {
            assert_eq!(
                records(&[block("Bounce", &[(name, text)])], &[], std::slice::from_ref(&bounce)).is_empty(),
                fits,
                "{name}"
            );
        }
        let twice = [reception.clone(), reception];
        assert_eq!(records(&[block("Reception", &[("queue", "a")])], &[], &twice).len(), 1);
        assert_eq!(records(&[], &["Reception".to_owned()], &twice).len(), 1);
    }
}
