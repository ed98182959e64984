//! Errors of libraries in one line.

/// An error and what caused it, in one line: libraries say little at the top.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = error.to_string();
        if !text.contains(&line) {
            text = format!("{text}: {line}");
        }
        cause = error.source();
    }
    text
}
