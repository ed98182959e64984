//! The lines a daemon writes to stderr once it listens: `... <proto> listener on <ip:port>` for each listener, and one
//! with `initialization complete` when all are up. In: the text so far. Out: the addresses, or that it is too early.

use std::net::SocketAddr;

/// Where a daemon listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Listeners {
    /// The first SMTP listener.
    pub smtp: Option<SocketAddr>,
    /// The first HTTP listener.
    pub http: Option<SocketAddr>,
}

impl Listeners {
    /// Reads what a daemon wrote; nothing until it says that it is complete.
    pub fn find(text: &str) -> Option<Listeners> {
        text.lines().any(|line| line.contains("initialization complete")).then_some(())?;
        let mut found = Listeners::default();
        for line in text.lines() {
            let line = without_colours(line);
            let Some((before, address)) = line.trim_end().rsplit_once(" listener on ") else { continue };
            let Ok(address) = address.parse() else { continue };
            match before.rsplit(' ').next() {
                Some("smtp") => found.smtp = found.smtp.or(Some(address)),
                Some("http") => found.http = found.http.or(Some(address)),
                _ => {}
            }
        }
        Some(found)
    }
}

/// Drops terminal colours (`ESC [ ... m`), which a log library may write even to a file.
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, escape)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = escape.split_once('m').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_before_the_last_line() {
        let text = "smtp listener on 127.0.0.1:2025\n";
        assert_eq!(Listeners::find(text), None);
        let text = format!("{text}2026-01-01 INFO kumod: initialization complete\n");
        let smtp = Some("127.0.0.1:2025".parse().expect("an address"));
        assert_eq!(Listeners::find(&text), Some(Listeners { smtp, http: None }));
    }

    #[test]
    fn prefixes_colours_and_order_do_not_matter() {
        let text = "\x1b[2m2026\x1b[0m \x1b[32m INFO\x1b[0m starting http listener on 127.0.0.1:8000\x1b[0m\n\
                    other listener on 127.0.0.1:1\n\
                    smtp listener on nonsense\n\
                    main: smtp listener on [::1]:25\n\
                    smtp listener on 127.0.0.1:26\n\
                    initialization complete\n";
        let found = Listeners::find(text).expect("complete");
        assert_eq!(found.http.map(|address| address.port()), Some(8000));
        assert_eq!(found.smtp.map(|address| address.to_string()).as_deref(), Some("[::1]:25"));
    }
}
