//! `policy-extras.listener_domains`: its function and the keys of its files.
//!
//! Facts: share/policy-extras/listener_domains.lua and listener_files.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, shown};

/// The helper.
pub(crate) const LISTENER_DOMAINS: Helper = Helper {
    name: "policy-extras.listener_domains",
    doc: "What listeners do for domains (who relays, which reports are read), from TOML or JSON files: `local \
          listener_domains = require 'policy-extras.listener_domains'`. Files are read again in a new configuration \
          epoch.",
    functions: FUNCTIONS,
    groups: &[Group {
        title: "Files of listener domains",
        doc: "Later files add to what earlier ones say of a domain, and win over it option by option.",
        example: Some(EXAMPLE),
        shape: Shape::Keys,
        names: KEYS,
    }],
};

const FUNCTIONS: &[Name] = &[shown(
    "listener_domains:setup",
    "(files) -> function",
    "The handler for `kumo.on('get_listener_domain', ...)`. It looks for a block of the listener, then for one of \
     all listeners, then for `*`; nil where there is none.",
    KNOW,
)];

const KEYS: &[Name] = &[
    shown(
        "listener_domains.toml.DOMAIN",
        "table",
        "Options of [kumo.make_listener_domain](options.md#kumomake_listener_domain) for a domain, for all below it \
         (`*.example.com`), or for those without a block (`*`). Names are compared in lower case.",
        KNOW,
    ),
    shown(
        "listener_domains.toml.DOMAIN.relay_from_authz",
        "list<string> = {}",
        "Users who may relay: for a client whose `authz_id` is among them `relay_from` is the address it has, and \
         nothing else.",
        KNOW,
    ),
    shown(
        "listener_domains.toml.listener.ADDR.DOMAIN",
        "table",
        "The same for one listener alone, by its address and port; `*` is every listener.",
        KNOW,
    ),
];

const EXAMPLE: &str = r#"["example.com"]
relay_to = true
log_oob = true

["*"]
relay_from = ["192.0.2.0/24"]
relay_from_authz = ["newsletter"]

[listener."127.0.0.1:2525"."internal.example"]
relay_to = true"#;

const KNOW: &str =
    "crates/lua/tests/scripts/extras.rs::listener_domains_know_wildcards_listeners_and_who_authenticated";
