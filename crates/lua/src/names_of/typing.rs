//! `policy-extras.typing`: its functions and types.
//!
//! Facts: share/policy-extras/typing.lua.

use crate::helper_names::Helper;
use crate::names_of::{Name, own, shown};

/// The helper.
pub(crate) const TYPING: Helper = Helper {
    name: "policy-extras.typing",
    doc: "Records whose fields are checked, so that a mistyped name is an error where it stands: `local typing = \
          require 'policy-extras.typing'`. A constructor of records is a type as well.",
    functions: FUNCTIONS,
    groups: &[],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "typing.record",
        "(name, fields) -> constructor",
        "A constructor of records, whose fields are checked when they are made and when they are written. A field \
         that is missing, unknown or of another type is an error that names it; `_dynamic(key, value)` among the \
         fields may let in others, by `true`, or `false` and why not.",
        CHECK,
    ),
    shown("typing.list", "(T) -> type", "A list of values of that type.", CHECK),
    shown("typing.map", "(K, V) -> type", "A table from values of one type to values of another.", CHECK),
    shown("typing.option", "(T) -> type", "nil, or a value of that type.", CHECK),
    shown("typing.default", "(T, value) -> type", "A value of that type, and `value` where there is none.", CHECK),
    shown("typing.enum", "(name, ...) -> type", "One of these strings.", CHECK),
    shown("typing.variant", "(...) -> type", "A value of the first of these types that takes it.", CHECK),
    shown("typing.string", "type", "A string.", CHECK),
    own("typing.number", "type", "A number.", CHECK),
    own("typing.boolean", "type", "A boolean.", CHECK),
    own("typing.Function", "type", "A function.", CHECK),
    own("typing.any", "type", "Any value.", CHECK),
    shown(
        "typing.extract_deserialize_error",
        "(error) -> string",
        "The reason in an error of a constructor of options, without the place and the table it is about; another \
         error as a text.",
        CHECK,
    ),
];

const CHECK: &str = "crates/lua/tests/scripts/extras.rs::records_check_their_fields";
