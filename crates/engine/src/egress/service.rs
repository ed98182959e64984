//! Names of ready queues: their last part, and what metrics call them (KumoMTA behaviour).
//!
//! `SOURCE->SITE@PROTOCOL`; the service label is the protocol's name, a colon and that. Pure; nothing fails: a name in
//! which no protocol is found counts as SMTP.

use config::{EgressPath, QueueProtocol};

/// The protocol part of a ready queue's name.
pub(crate) fn suffix(protocol: &QueueProtocol) -> String {
    match protocol {
        QueueProtocol::Smtp(_) => SMTP.to_owned(),
        QueueProtocol::Maildir(maildir) => format!("{MAILDIR}:{}", maildir.maildir_path),
        QueueProtocol::CustomLua(lua) => format!("{LUA}:{}", lua.constructor),
        QueueProtocol::Xfer(_) => XFER.to_owned(),
        QueueProtocol::Null => "null".to_owned(),
        QueueProtocol::HttpInjectionGenerator => "httpinject:generator".to_owned(),
        QueueProtocol::DeferredSmtpInjection => "defersmtpinject".to_owned(),
    }
}

/// The protocol of a ready queue, as metrics call all of its kind.
pub fn protocol_of(ready_name: &str) -> &'static str {
    if ready_name.ends_with("@smtp_client") {
        return SMTP;
    }
    // A Maildir's path may hold any of this; a site holds none of it.
    let site = ready_name.split_once("->").map_or(ready_name, |(_, rest)| rest);
    match site.split_once('@') {
        Some((_, rest)) if rest.starts_with("lua:") => LUA,
        Some((_, rest)) if rest.starts_with("maildir:") => MAILDIR,
        Some((_, XFER)) => XFER,
        _ => SMTP,
    }
}

/// The provider label of a ready queue: what its path says, else its site.
pub(crate) fn provider_of<'a>(ready_name: &'a str, path: &'a EgressPath) -> &'a str {
    path.provider_name.as_deref().unwrap_or_else(|| site_of(ready_name))
}

fn site_of(ready_name: &str) -> &str {
    let rest = ready_name.split_once("->").map_or(ready_name, |(_, rest)| rest);
    rest.split_once('@').map_or(rest, |(site, _)| site)
}

/// The service label of one ready queue.
pub(crate) fn service(ready_name: &str) -> String {
    format!("{}:{ready_name}", protocol_of(ready_name))
}

const SMTP: &str = "smtp_client";
const LUA: &str = "lua";
const MAILDIR: &str = "maildir";
const XFER: &str = "xfer";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_stands_between_source_and_protocol() {
        for (name, expected) in [
            ("unspecified->(a|b).example@smtp_client", "(a|b).example"),
            ("ip-1->example.com@maildir:/var/mail/{{ email }}@lua:x", "example.com"),
            ("ip-1", "ip-1"),
        ] {
            assert_eq!(site_of(name), expected);
        }
    }

    #[test]
    fn what_is_found_is_among_those_that_metrics_know() {
        assert_eq!([SMTP, LUA, MAILDIR, XFER], telemetry::PROTOCOLS);
    }

    #[test]
    fn the_protocol_stands_behind_the_site() {
        for (name, expected) in [
            ("unspecified->(a|b).example@smtp_client", "smtp_client"),
            ("ip-1->example.com@lua:make.sender", "lua"),
            ("ip-1->example.com@maildir:/var/mail/{{ email }}@lua:x", "maildir"),
            ("ip-1->example.com@lua:make@maildir:", "lua"),
            ("unspecified->http://b.test:8000.xfer.kumomta.internal@xfer", "xfer"),
            ("ip-1", "smtp_client"),
        ] {
            assert_eq!(protocol_of(name), expected, "{name}");
        }
        assert_eq!(service("s->d@lua:c"), "lua:s->d@lua:c");
    }
}
