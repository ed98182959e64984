//! `policy-extras.policy_utils`: its functions.
//!
//! Facts: share/policy-extras/policy_utils.lua.

use crate::helper_names::Helper;
use crate::names_of::{Name, own_unshown, shown};

/// The helper.
pub(crate) const POLICY_UTILS: Helper = Helper {
    name: "policy-extras.policy_utils",
    doc: "Small functions for tables, comparisons and files: `local utils = require 'policy-extras.policy_utils'`. \
          They take all that `pairs` walks: tables, memoized tables, configuration objects.",
    functions: FUNCTIONS,
    groups: &[],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "policy_utils.equals",
        "(a, b, ignore_mt or nil) -> boolean",
        "Whether two values are equal, tables by their content. With `ignore_mt` metatables are not asked.",
        DO,
    ),
    shown(
        "policy_utils.assert_eq",
        "(a, b, message or nil)",
        "An error with both values, and the message in front, unless they are equal.",
        DO,
    ),
    shown("policy_utils.assert_ne", "(a, b, message or nil)", "An error when they are equal.", DO),
    shown(
        "policy_utils.assert_matches",
        "(text, pattern, message or nil)",
        "An error unless the regular expression is found in the text.",
        DO,
    ),
    shown(
        "policy_utils.merge_into",
        "(src or nil, dest) -> table",
        "Writes every member of `src` over those of `dest`, and returns `dest`.",
        DO,
    ),
    shown(
        "policy_utils.recursive_merge_into",
        "(src or nil, dest) -> table",
        "The same, with tables merged into tables. A list takes the place of a list.",
        DO,
    ),
    shown(
        "policy_utils.table_contains",
        "(table or nil, value) -> boolean",
        "Whether a member of the table is this value.",
        DO,
    ),
    shown("policy_utils.table_keys", "(table) -> list", "The keys of a table, in no order.", DO),
    shown("policy_utils.table_is_empty", "(table) -> boolean", "Whether a table has no member.", DO),
    shown(
        "policy_utils.load_json_or_toml_file",
        "(path or table) -> table",
        "What a file says: TOML if it ends in `.toml`, else JSON. A table is returned as it is; anything else is an \
         error.",
        DO,
    ),
    shown("policy_utils.starts_with", "(text, start) -> boolean", "Whether the text begins so, taken literally.", DO),
    shown("policy_utils.ends_with", "(text, ending) -> boolean", "Whether the text ends so, taken literally.", DO),
    shown(
        "policy_utils.split_ip_port",
        "(text) -> ip, port",
        "Address and port of `ip:port` or `[ip]:port`, both as strings. An error for other texts.",
        DO,
    ),
    shown(
        "policy_utils.dumps",
        "(value) -> string or nil",
        "A value for people: JSON where that can hold it, nil for nil.",
        DO,
    ),
    own_unshown(
        "policy_utils.check_files",
        "(helper, files)",
        "An error, said of the caller's caller, unless `files` is a list of paths and tables. For helpers that read \
         files; ours.",
    ),
];

const DO: &str = "crates/lua/tests/scripts/extras.rs::small_functions_do_what_their_names_say";
