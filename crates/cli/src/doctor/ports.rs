//! What is judged of port 25, both ways: who answers at our listeners, and whether servers out there can be reached.
//!
//! In: what came of a connection, as `dialogue` tries it. Out: findings. Pure.

use super::finding::Finding;
use super::names::RESOLVER;

/// What a server said, if it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub at: String,
    /// The greeting's last line, with its code.
    pub greeting: String,
    /// Offered in answer to EHLO.
    pub offers_tls: bool,
}

/// A way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Out {
    /// Whose server.
    pub domain: String,
    /// What it said; or why there was no word.
    pub said: Result<Said, Silence>,
}

/// Why there was no word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nobody tells where it is.
    Name(String),
    /// It cannot be reached, or speaks no SMTP.
    Server(String),
}

/// A listener of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct In {
    pub listen: String,
    /// The name its greeting begins with.
    pub hostname: String,
    pub state: InState,
}

/// What is found at the address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InState {
    Answers(Said),
    /// Nobody is there, and it can be opened.
    Free,
    /// Somebody has it, and says nothing that is SMTP.
    Taken(String),
    /// Not with the rights of who asks.
    Forbidden,
    /// It cannot be opened at all.
    Wrong(String),
}

/// From outside, the server's own name reached at its public address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Public {
    pub address: String,
    pub said: Result<Said, String>,
}

/// Ways out: when some server can be reached, port 25 is open.
pub(super) fn out(found: &[Out]) -> Vec<Finding> {
    let is_open = found.iter().any(|out| out.said.is_ok());
    let judge = |out: &Out| match &out.said {
        Ok(said) if !said.greeting.starts_with('2') => Finding::warning(
            "port out",
            &out.domain,
            format!("{} turns us away: {}", said.at, said.greeting),
            "the text says why: often a block list or a missing PTR record",
        ),
        Ok(said) if !said.offers_tls => Finding::warning(
            "port out",
            &out.domain,
            format!("{} is reached and offers no TLS: {}", said.at, said.greeting),
            "if this is so with all: something on the way (a firewall that inspects SMTP) takes STARTTLS out; switch that off",
        ),
        Ok(said) => Finding::ok("port out", &out.domain, format!("{} is reached and offers TLS", said.at)),
        Err(Silence::Name(why)) => Finding::problem("dns", &out.domain, why.as_str(), RESOLVER),
        Err(Silence::Server(why)) if is_open => {
            Finding::warning("port out", &out.domain, why.as_str(), "others are reached: try again later")
        }
        Err(Silence::Server(why)) => Finding::problem(
            "port out",
            &out.domain,
            why.as_str(),
            "many providers close port 25 to new customers: ask yours to open it, or send through a proxy (docs/proxies.md)",
        ),
    };
    found.iter().map(judge).collect()
}

/// A listener.
pub(super) fn listener(found: &In) -> Finding {
    let In { listen, hostname, state } = found;
    match state {
        InState::Answers(said) if !said.greeting.starts_with('2') => Finding::warning(
            "port in",
            listen,
            format!("who answers takes nobody now: {}", said.greeting),
            "the text says why; of a server of ours `kcli check-readiness` and its log say more",
        ),
        InState::Answers(said) => {
            let name = said.greeting.split_ascii_whitespace().nth(1).unwrap_or_default();
            match name.eq_ignore_ascii_case(hostname) {
                true => Finding::ok("port in", listen, format!("answers: {}", said.greeting)),
                false => Finding::problem(
                    "port in",
                    listen,
                    format!("another program answers, or one with another name than {hostname}: {}", said.greeting),
                    OTHER,
                ),
            }
        }
        InState::Free => Finding::warning(
            "port in",
            listen,
            "nobody listens; it is free",
            "systemctl enable --now postrider (or start kumod), then ask again",
        ),
        InState::Taken(why) => Finding::problem("port in", listen, why.as_str(), OTHER),
        InState::Forbidden => Finding::warning(
            "port in",
            listen,
            "nobody listens, and this user may not open it",
            "the unit has the right (AmbientCapabilities=CAP_NET_BIND_SERVICE); by hand: as root with --user",
        ),
        InState::Wrong(why) => Finding::problem("port in", listen, why.as_str(), "correct `listen` in the policy"),
    }
}

/// The way in from outside, as far as it can be tried from inside.
pub(super) fn public(found: &Public) -> Finding {
    let Public { address, said } = found;
    let elsewhere = format!(
        "a router may not lead back from inside: try from another machine, `nc -v {address} 25`; open TCP 25 in the firewall"
    );
    match said {
        Ok(said) if said.greeting.starts_with('2') => Finding::ok("port in", address, "the public address answers"),
        Ok(said) => {
            Finding::warning("port in", address, format!("the public address answers {}", said.greeting), elsewhere)
        }
        Err(why) => {
            Finding::warning("port in", address, format!("the public address does not answer: {why}"), elsewhere)
        }
    }
}

/// What helps against another mail server.
const OTHER: &str = "`ss -ltnp` names it; a Postfix or Exim of the system: systemctl disable --now postfix exim4";

#[cfg(test)]
mod tests {
    use super::super::finding::Verdict::{self, Ok as Well, Problem, Warning};
    use super::*;

    fn said(greeting: &str, offers_tls: bool) -> Said {
        Said { at: "192.0.2.9:25".to_owned(), greeting: greeting.to_owned(), offers_tls }
    }

    fn verdict(finding: &Finding) -> Verdict {
        assert_eq!(finding.verdict == Well, finding.fix.is_none(), "{finding:?}");
        finding.verdict
    }

    #[test]
    fn one_server_that_is_reached_opens_the_port() {
        let way = |said: Result<Said, &str>| Out {
            domain: "a.example".to_owned(),
            said: said.map_err(|why| Silence::Server(why.to_owned())),
        };
        let judged = |ways: &[Out]| out(ways).iter().map(verdict).collect::<Vec<_>>();
        let good = way(Ok(said("220 mx ready", true)));
        assert_eq!(judged(&[good.clone(), way(Err("timed out"))]), [Well, Warning]);
        assert_eq!(judged(&[way(Err("timed out")), way(Err("refused"))]), [Problem, Problem]);
        let unknown = Out { domain: "a.example".to_owned(), said: Err(Silence::Name("NXDOMAIN".to_owned())) };
        let found = out(&[good.clone(), unknown]);
        assert!(found[1].check == "dns" && verdict(&found[1]) == Problem, "{found:?}");
        assert_eq!(judged(&[way(Ok(said("554 you are listed", false)))]), [Warning]);
        let stripped = out(&[way(Ok(said("220 mx ready", false)))]);
        assert!(verdict(&stripped[0]) == Warning && stripped[0].what.contains("no TLS"));
    }

    #[test]
    fn a_listener_is_ours_or_it_is_not() {
        let judged = |state| {
            verdict(&listener(&In { listen: "0.0.0.0:25".to_owned(), hostname: "mta1.test".to_owned(), state }))
        };
        assert_eq!(judged(InState::Answers(said("220 MTA1.test ESMTP", true))), Well);
        assert_eq!(judged(InState::Answers(said("220 debian ESMTP Postfix", true))), Problem);
        assert_eq!(judged(InState::Answers(said("220", true))), Problem);
        assert_eq!(judged(InState::Free), Warning);
        assert_eq!(judged(InState::Taken("in use".to_owned())), Problem);
        assert_eq!(judged(InState::Forbidden), Warning);
        assert_eq!(judged(InState::Wrong("no such address".to_owned())), Problem);
    }

    #[test]
    fn the_public_address_may_not_be_reached_from_inside() {
        let judged = |said| verdict(&public(&Public { address: "192.0.2.1".to_owned(), said }));
        assert_eq!(judged(Ok(said("220 mta1.test", true))), Well);
        assert_eq!(judged(Ok(said("554 no", true))), Warning);
        assert_eq!(judged(Err("timed out".to_owned())), Warning);
    }
}
