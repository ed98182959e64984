//! JSON pointers (RFC 6901) to what is wrong in a body.
//!
//! In: a place as readers name it. Out: the pointer; to the body itself, an empty one. Names of members may hold what separates steps,
//! so the body is looked at too.

use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// Of a place as the reader of options has it, `recipients[0].email`, in `body`.
pub(crate) fn of_text(place: &str, body: &Value) -> String {
    let (mut pointer, mut rest, mut at) = (String::new(), place, Some(body));
    while !rest.is_empty() {
        let (step, behind) = step(rest, at);
        push(&mut pointer, step);
        at = at.and_then(|value| match value {
            Value::Array(list) => list.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        });
        rest = behind.strip_prefix('.').unwrap_or(behind);
    }
    pointer
}

/// Of a place as serde came to it.
pub(crate) fn of_path(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => push(&mut pointer, &index.to_string()),
            Segment::Map { key } => push(&mut pointer, key),
            Segment::Enum { variant } => push(&mut pointer, variant),
            Segment::Unknown => {}
        }
    }
    pointer
}

/// The first step of a place, and what is behind it.
fn step<'a>(place: &'a str, at: Option<&Value>) -> (&'a str, &'a str) {
    if let Some((index, behind)) = place.strip_prefix('[').and_then(|place| place.split_once(']')) {
        return (index, behind);
    }
    let ends_step = |name: &str| matches!(place.as_bytes().get(name.len()), None | Some(b'.' | b'['));
    let names = at.and_then(Value::as_object).into_iter().flat_map(|members| members.keys());
    let known = names.filter(|name| place.starts_with(name.as_str()) && ends_step(name)).map(String::len).max();
    place.split_at(known.unwrap_or_else(|| place.find(['.', '[']).filter(|at| *at > 0).unwrap_or(place.len())))
}

fn push(pointer: &mut String, step: &str) {
    pointer.push('/');
    pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn places_become_pointers() {
        let body = json!({
            "recipients": [{"email": 1}],
            "content": {"headers": {"a/b": 1, "X.Y": 1, "X": {"Y": 1}, "q[0]": 1, "~": 1}},
        });
        for (place, expected) in [
            ("recipients[0].email", "/recipients/0/email"),
            ("content.headers.a/b", "/content/headers/a~1b"),
            ("content.headers.X.Y", "/content/headers/X.Y"),
            ("content.headers.q[0]", "/content/headers/q[0]"),
            ("content.headers.~", "/content/headers/~0"),
            ("not.there[3]", "/not/there/3"),
            ("", ""),
        ] {
            assert_eq!(of_text(place, &body), expected, "{place}");
        }
    }

    #[test]
    fn strange_places_end() {
        for place in [".", "..", "[", "]", "[]", "a[", "a..b", "[x].y"] {
            assert!(of_text(place, &json!({"": {"": 1}})).starts_with('/'), "{place}");
        }
    }

    #[test]
    fn serde_knows_the_steps_itself() {
        let error = serde_path_to_error::deserialize::<_, std::collections::BTreeMap<String, Vec<String>>>(
            json!({"a.b": ["x", 1]}),
        );
        assert_eq!(of_path(error.expect_err("wrong").path()), "/a.b/1");
    }
}
