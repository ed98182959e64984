//! `policy-extras.docker_utils`: its functions.
//!
//! Facts: share/policy-extras/docker_utils.lua.

use crate::helper_names::Helper;
use crate::names_of::{Name, shown};

/// The helper.
pub(crate) const DOCKER_UTILS: Helper = Helper {
    name: "policy-extras.docker_utils",
    doc: "Addresses of neighbours, where the program runs in a container: `local docker_utils = require \
          'policy-extras.docker_utils'`. The command `getent` is asked.",
    functions: FUNCTIONS,
    groups: &[],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "docker_utils.resolve_docker_name",
        "(name) -> list<string>",
        "The IPv4 addresses of a host as the system knows them, none when it knows none. They are remembered for a \
         minute; what is no name of a host is an error.",
        NEIGHBOURS,
    ),
    shown(
        "docker_utils.resolve_docker_network",
        "() -> string",
        "The network of this container, `a.b.c.0/24`, by the name in the variable `HOSTNAME`. It is remembered for \
         an hour; an error when that name has no address.",
        NEIGHBOURS,
    ),
    shown(
        "docker_utils.resolve_tsa_endpoints",
        "() -> list<string>",
        "The base URLs of the service `tsa`, at port 8008: for `publish` and `subscribe` of `policy-extras.shaping`.",
        NEIGHBOURS,
    ),
];

const NEIGHBOURS: &str =
    "crates/lua/tests/scripts/extras.rs::neighbours_of_a_container_are_found_as_the_system_finds_them";
