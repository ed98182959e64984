//! `policy-extras.compliance`: its function and the keys of its files.
//!
//! Facts: share/policy-extras/compliance.lua and compliance_files.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, own};

/// The helper.
pub(crate) const COMPLIANCE: Helper = Helper {
    name: "policy-extras.compliance",
    doc: "What large providers of mailboxes demand, held against each message by tenant, from TOML or JSON files: \
          `local compliance = require 'policy-extras.compliance'`. An addition; the rules are in \
          [compliance.md](../compliance.md).",
    functions: FUNCTIONS,
    groups: &[Group {
        title: "Files of rules",
        doc: "Both kinds of blocks have the options of [kumo.compliance.check](options.md#kumocompliancecheck) but \
              `tenant`. An unknown section, option, mode or rule is an error.",
        example: Some(EXAMPLE),
        shape: Shape::Keys,
        names: KEYS,
    }],
};

const FUNCTIONS: &[Name] = &[own(
    "compliance:setup",
    "(files) -> function",
    "The function that holds a message against the rules, with the options of the tenant in its metadata: to be \
     called last, when tenant and signatures are there. It does and returns what \
     [kumo.compliance.check](kumo.compliance.md) does.",
    MODE,
)];

const KEYS: &[Name] = &[
    own("compliance.toml.base", "table", "Options for all tenants, and for mail without one.", MODE),
    own("compliance.toml.tenant.NAME", "table", "What differs for mail of a tenant, option by option.", MODE),
];

const EXAMPLE: &str = r#"[base]
mode = "Warn"
sources = ["192.0.2.1", "192.0.2.2"]

[tenant."shop"]
mode = "Reject"
bulk = true

[tenant."bank"]
mode = "Off""#;

const MODE: &str = "crates/lua/tests/scripts/compliance.rs::each_tenant_has_its_mode";
