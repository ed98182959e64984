//! `policy-extras.rollup`: its functions.
//!
//! Facts: share/policy-extras/rollup.lua.

use crate::helper_names::Helper;
use crate::names_of::{Name, shown};

/// The helper.
pub(crate) const ROLLUP: Helper = Helper {
    name: "policy-extras.rollup",
    doc: "Mail of many domains that are hosted in one place, through one queue: `local rollup = require \
          'policy-extras.rollup'`. Names of hosts end with a dot here.",
    functions: FUNCTIONS,
    groups: &[],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "rollup.reroute_based_on_mx_host_suffix",
        "(msg, table)",
        "Routes a message by where its domain is hosted: the table has domains by suffix, such as `{ \
         ['.mx.example.com.'] = 'example.com' }`, and the one with which all MX hosts end becomes the \
         `routing_domain`. What DNS does not answer is printed, and the message stays as it is.",
        HOSTED,
    ),
    shown(
        "rollup.reroute_using_ip_rollup",
        "(msg, table)",
        "The same by the most preferred hosts alone. The domains in the table end in `.ip_rollup`.",
        HOSTED,
    ),
    shown(
        "rollup.apply_ip_rollup_to_queue_config",
        "(domain, routing_domain or nil, params)",
        "In `get_queue_config`, for a routing domain that ends in `.ip_rollup`: sets `params.protocol` to the \
         addresses of the domain's MX hosts. Other domains change nothing; a failure of DNS is an error.",
        HOSTED,
    ),
];

const HOSTED: &str = "crates/lua/tests/scripts/extras.rs::domains_that_are_hosted_in_one_place_are_routed_there";
