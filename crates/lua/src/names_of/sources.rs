//! `policy-extras.sources`: its function and the keys of its files.
//!
//! Facts: share/policy-extras/sources.lua and sources_files.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, shown};

/// The helper.
pub(crate) const SOURCES: Helper = Helper {
    name: "policy-extras.sources",
    doc: "Sources and pools from TOML or JSON files: `local sources = require 'policy-extras.sources'`. Files are \
          read again in a new configuration epoch.",
    functions: FUNCTIONS,
    groups: &[Group {
        title: "Files of sources",
        doc: "There are two kinds of blocks; an unknown key is an error.",
        example: Some(EXAMPLE),
        shape: Shape::Keys,
        names: KEYS,
    }],
};

const FUNCTIONS: &[Name] = &[shown(
    "sources:setup",
    "(files)",
    "Answers `get_egress_source` and `get_egress_pool` from these files, in order: later ones change single options \
     of a source and add members to a pool. A source or pool that no file has is an error of the handler.",
    IN_ORDER,
)];

const KEYS: &[Name] = &[
    shown(
        "sources.toml.source.NAME",
        "table",
        "A source: options of [kumo.make_egress_source](options.md#kumomake_egress_source). Its name is that of the \
         block.",
        IN_ORDER,
    ),
    shown(
        "sources.toml.pool.NAME",
        "table",
        "A pool: a table for each of its sources. `--validate` says when one of them is not defined.",
        IN_ORDER,
    ),
    shown(
        "sources.toml.pool.NAME.SOURCE.weight",
        "integer = 1",
        "How often the source is chosen, next to the others of the pool.",
        IN_ORDER,
    ),
];

const EXAMPLE: &str = r#"[source."ip-1"]
source_address = "192.0.2.1"
ehlo_domain = "mta1.example.com"

[source."ip-2"]
source_address = "192.0.2.2"
ehlo_domain = "mta2.example.com"

[pool."shared"."ip-1"]
weight = 3

[pool."shared"."ip-2"]

[pool."reserved"."ip-2"]"#;

const IN_ORDER: &str = "crates/lua/tests/scripts/extras.rs::sources_and_pools_come_from_files_in_order";
