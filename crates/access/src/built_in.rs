//! Who may ask what where policy says nothing (KumoMTA behaviour): peers in `trusted_hosts` everything, who proves who they are may
//! inject mail, and anybody may see whether a server is alive.

use crate::{Access, AccessControlList, Criteria, IdentityKind, Rule};

/// The rules of a resource, if it is one that has any.
pub fn built_in(resource: &str) -> Option<AccessControlList> {
    let any = || IdentityKind::Any;
    let trusted = || IdentityKind::Group(TRUSTED_PEERS.to_owned());
    Some(match resource.strip_prefix("http_listener/*/")? {
        // The second is ours.
        "api/check-liveness" | "api/check-readiness" | "rapidoc" | "api-docs/openapi.json" | "tsa/status" => {
            allow(&["GET"], &[any()])
        }
        "api/inject" => allow(&["POST"], &[trusted(), IdentityKind::Authenticated]),
        "api/admin" => allow(&["GET", "POST", "DELETE"], &[trusted()]),
        "metrics" | "metrics.json" | "api/machine-info" => allow(&["GET"], &[trusted()]),
        // Ours; what it shows and does are the endpoints above.
        "console" => allow(&["GET"], &[trusted()]),
        // GET, of arrivals, is ours.
        "api/xfer" => allow(&["GET", "POST"], &[trusted()]),
        "publish_log_v1" => allow(&["POST"], &[trusted()]),
        "get_config_v1" | "get_suspension_v1" | "subscribe_suspension_v1" | "get_bounce_v1" | "subscribe_event_v1" => {
            allow(&["GET"], &[trusted()])
        }
        _ => return None,
    })
}

fn allow(privileges: &[&str], kinds: &[IdentityKind]) -> AccessControlList {
    let rule = |privilege: &&str, kind: &IdentityKind| Rule {
        criteria: Criteria::Identity(kind.clone()),
        privilege: (*privilege).to_owned(),
        access: Access::Allow,
    };
    let rules = privileges.iter().flat_map(|privilege| kinds.iter().map(move |kind| rule(privilege, kind)));
    AccessControlList { rules: rules.collect() }
}

/// The group of peers in a listener's `trusted_hosts` (KumoMTA's name).
pub const TRUSTED_PEERS: &str = "kumomta:http-listener-trusted-ip";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AuthInfo;

    #[test]
    fn trusted_peers_administer_the_proven_inject_and_anybody_sees_life() {
        let trusted = AuthInfo { groups: vec![TRUSTED_PEERS.to_owned()], ..AuthInfo::default() };
        let (proven, nobody) = (AuthInfo::by_password("ann"), AuthInfo::default());
        for (resource, privilege, expected) in [
            ("api/check-liveness", "GET", [true, true, true]),
            ("api/check-readiness", "GET", [true, true, true]),
            ("api/check-readiness", "POST", [false, false, false]),
            ("tsa/status", "GET", [true, true, true]),
            ("api/inject", "POST", [true, true, false]),
            ("api/admin", "DELETE", [true, false, false]),
            ("metrics", "GET", [true, false, false]),
            ("metrics", "POST", [false, false, false]),
            ("console", "GET", [true, false, false]),
            ("api/xfer", "POST", [true, false, false]),
        ] {
            let list = built_in(&format!("http_listener/*/{resource}")).expect("there");
            let may = |auth| list.rule_for(auth, privilege).is_some_and(|rule| rule.access == Access::Allow);
            assert_eq!([&trusted, &proven, &nobody].map(may), expected, "{privilege} {resource}");
        }
        for resource in ["http_listener/*/proxy/status", "http_listener", "http_listener/127.0.0.1:8000/metrics"] {
            assert_eq!(built_in(resource), None, "{resource}");
        }
    }
}
