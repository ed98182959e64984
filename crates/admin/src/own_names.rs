//! What a browser may carry: a page of another site must neither give orders nor listen in through the browser of somebody whose
//! address is trusted.
//!
//! In: a request's method and header. Out: nothing, or a refusal. Two rules. What changes anything, and a websocket, comes from
//! a page of this server: `Sec-Fetch-Site` and `Origin` say so, and no page can write these. And whoever asks by a browser calls the
//! server by a name of its own: a page whose name was made to resolve to our address (DNS rebinding) sends its own name. With
//! TLS the certificate sees to that. Programs that are no browsers send none of this, and nothing here is about them.

use crate::answer::Failed;
use axum::http::{HeaderMap, Method, header};
use config::HttpListener;
use std::net::IpAddr;

/// Names of this server.
#[derive(Clone, Debug)]
pub(crate) struct OwnNames {
    host: String,
    others: Vec<String>,
    is_tls: bool,
}

/// How a request calls this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// By a name of ours, or by a program that may call it as it likes.
    ByAnOwnName,
    /// By a name that is none, and with words that say who asks: these count, and not from where it comes.
    ByAnother,
}

impl OwnNames {
    /// Those of a listener; `hostname` is what it is called where the options name nothing.
    pub fn new(options: &HttpListener, hostname: &str) -> OwnNames {
        let host = options.hostname.as_deref().unwrap_or(hostname).to_owned();
        OwnNames { host, others: options.browser_hosts.clone(), is_tls: options.use_tls }
    }

    /// Refuses what another site makes a browser do.
    ///
    /// # Errors
    /// 403 for what comes from another site, 421 for a name that is none of ours.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<Called, Failed> {
        let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or(UNREADABLE));
        let (origin, site, host) = (text(header::ORIGIN.as_str()), text(FETCH_SITE), text(header::HOST.as_str()));
        if acts(method, headers) {
            let is_ours = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
            let is_here = origin.is_none_or(|origin| self.is_own_origin(origin, host.unwrap_or_default()));
            if !is_ours || !is_here {
                let from = origin.or(site).unwrap_or_default();
                return Err(Failed::forbidden(format!(
                    "a page of another site asks for this (Origin or Sec-Fetch-Site: {from:?}): expected one of this server, or a name in browser_hosts"
                )));
            }
        }
        // Some programs send the first of these, and then not the second; browsers send both or none.
        let speaks = headers.contains_key(header::ACCEPT_LANGUAGE) && !headers.contains_key(FETCH_MODE);
        // In some browsers a page may give another name, but none that lets it leaves out the language.
        let is_named = text(header::USER_AGENT.as_str()).is_some_and(|name| name.starts_with(BROWSERS));
        let is_browser = origin.is_some() || site.is_some() || speaks || is_named;
        let host = host.unwrap_or_default();
        if self.is_tls || !is_browser || self.is_own_name(host) {
            return Ok(Called::ByAnOwnName);
        }
        // A program, or a page whose name was made to be ours, in somebody else's browser: words of its own it may have.
        if headers.contains_key(header::AUTHORIZATION) {
            return Ok(Called::ByAnother);
        }
        Err(Failed::misdirected(format!(
            "a browser calls this server {host:?}: expected an address, localhost, {:?}, or a name in browser_hosts",
            self.host
        )))
    }

    /// Whether a page of `origin` is one of ours, called `host`.
    fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        let Some((_, authority)) = origin.split_once("://") else { return false };
        let is_named = self.others.iter().any(|other| other.eq_ignore_ascii_case(authority));
        is_named || (!host.is_empty() && authority.eq_ignore_ascii_case(host))
    }

    fn is_own_name(&self, authority: &str) -> bool {
        let name = without_port(authority);
        let own = |other: &String| other.eq_ignore_ascii_case(authority) || other.eq_ignore_ascii_case(name);
        let is_local = name.eq_ignore_ascii_case("localhost")
            || name.len() > LOCAL_DOMAIN.len()
                && name[name.len() - LOCAL_DOMAIN.len()..].eq_ignore_ascii_case(LOCAL_DOMAIN);
        is_address(name) || is_local || name.eq_ignore_ascii_case(&self.host) || self.others.iter().any(own)
    }
}

/// Whether a request changes something, or opens a channel that the same-origin rule does not guard.
fn acts(method: &Method, headers: &HeaderMap) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || headers.contains_key(header::UPGRADE)
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((name, port)) if port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => authority,
    }
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
}

/// What a browser says of where a request comes from.
const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
/// How the names of all browsers begin.
const BROWSERS: &str = "Mozilla/";
/// Names below it are this machine's (RFC 6761).
const LOCAL_DOMAIN: &str = ".localhost";
/// Stands for what is no text: nobody's name.
const UNREADABLE: &str = "?";

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: u16 = 200;

    /// The status of a request with these fields.
    fn status(options: &HttpListener, method: &Method, fields: &[(&'static str, &str)]) -> u16 {
        let pairs = fields.iter().map(|(name, value)| {
            let value = value.parse().expect("a value");
            (axum::http::HeaderName::from_static(name), value)
        });
        let checked = OwnNames::new(options, "mx.example.com").check(method, &pairs.collect());
        checked.map_or_else(|refused| refused.status().as_u16(), |_| FINE)
    }

    fn post(fields: &[(&'static str, &str)]) -> u16 {
        status(&HttpListener::default(), &Method::POST, fields)
    }

    fn get(fields: &[(&'static str, &str)]) -> u16 {
        status(&HttpListener::default(), &Method::GET, fields)
    }

    #[test]
    fn pages_of_other_sites_give_no_orders() {
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(post(&[host]), FINE, "a program");
        assert_eq!(post(&[host, ("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")]), FINE);
        assert_eq!(
            post(&[host, ("origin", "http://127.0.0.1:8000")]),
            FINE,
            "no Sec-Fetch without a trustworthy origin"
        );
        assert_eq!(post(&[("host", "MX.example.com"), ("origin", "http://mx.example.com")]), FINE);
        for origin in ["http://evil.test", "null", "http://127.0.0.1:9000", "http://127.0.0.1", "127.0.0.1:8000", "é"]
        {
            assert_eq!(post(&[host, ("origin", origin)]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site", "é"] {
            assert_eq!(post(&[host, ("sec-fetch-site", site)]), 403, "{site}");
            assert_eq!(get(&[host, ("sec-fetch-site", site)]), FINE, "a link; what it answers no other site reads");
        }
        assert_eq!(post(&[("origin", "http://")]), 403);
        let delete = status(&HttpListener::default(), &Method::DELETE, &[host, ("origin", "http://evil.test")]);
        assert_eq!(delete, 403);
    }

    #[test]
    fn pages_of_other_sites_open_no_websockets() {
        let host = ("host", "127.0.0.1:8000");
        assert_eq!(get(&[host, ("upgrade", "websocket")]), FINE);
        assert_eq!(get(&[host, ("upgrade", "websocket"), ("origin", "http://evil.test")]), 403);
        assert_eq!(get(&[host, ("upgrade", "websocket"), ("origin", "http://127.0.0.1:8000")]), FINE);
    }

    #[test]
    fn browsers_call_the_server_by_a_name_of_its_own() {
        let language = ("accept-language", "en");
        for host in
            ["127.0.0.1:8000", "[::1]:8000", "[::1]", "10.0.0.1", "localhost:8000", "a.localhost", "MX.example.com:1"]
        {
            assert_eq!(get(&[("host", host), language]), FINE, "{host}");
        }
        for host in ["evil.test:8000", "localhost.evil.test", "notlocalhost", "", ":8000", "127.0.0.1.evil.test", "é"]
        {
            assert_eq!(get(&[("host", host), language]), 421, "{host}");
            assert_eq!(get(&[("host", host), ("user-agent", "Mozilla/5.0 (X11)")]), 421, "{host}");
            assert_eq!(get(&[("host", host), ("user-agent", "curl/8.0")]), FINE, "{host}: a program");
            let proving = [("host", host), ("user-agent", "Mozilla/5.0 (X11)"), ("authorization", "Basic x")];
            assert_eq!(get(&proving), FINE, "{host}: a program that calls itself a browser and says who it is");
            let headers = proving
                .iter()
                .map(|(name, value)| (axum::http::HeaderName::from_static(name), value.parse().expect("a value")));
            let called =
                OwnNames::new(&HttpListener::default(), "mx.example.com").check(&Method::GET, &headers.collect());
            assert_eq!(called.ok(), Some(Called::ByAnother), "{host}: who it says it is, and not from where, counts");
            let node = [("host", host), ("accept-language", "*"), ("sec-fetch-mode", "cors")];
            assert_eq!(get(&node), FINE, "{host}: a program that says less than browsers");
        }
        let rebound = [("host", "evil.test:8000"), ("origin", "http://evil.test:8000")];
        assert_eq!(post(&rebound), 421, "its own origin, and not ours");
        let tls = HttpListener { use_tls: true, ..HttpListener::default() };
        assert_eq!(status(&tls, &Method::GET, &[("host", "alias.test"), language]), FINE, "the certificate decides");
    }

    #[test]
    fn names_that_are_given_are_own_ones() {
        let given = vec!["Admin.example.com".to_owned(), "alias.test:8080".to_owned()];
        let options =
            HttpListener { browser_hosts: given, hostname: Some("own.test".to_owned()), ..HttpListener::default() };
        let get = |host: &str| status(&options, &Method::GET, &[("host", host), ("accept-language", "en")]);
        assert_eq!([get("admin.example.com"), get("alias.test:8080"), get("own.test:8000")], [FINE; 3]);
        assert_eq!([get("alias.test"), get("mx.example.com")], [421; 2]);
        // Behind a proxy that calls us by our address.
        let proxied = |origin: &str| status(&options, &Method::POST, &[("host", "127.0.0.1:8000"), ("origin", origin)]);
        assert_eq!([proxied("https://admin.example.com"), proxied("https://admin.example.com:444")], [FINE, 403]);
    }
}
