//! `policy-extras.dkim_sign`: its function and the keys of its files.
//!
//! Facts: share/policy-extras/dkim_sign.lua and dkim_files.lua; what options of signers do is `config`'s.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, own, shown, unshown};

/// The helper.
pub(crate) const DKIM_SIGN: Helper = Helper {
    name: "policy-extras.dkim_sign",
    doc: "DKIM signatures by the domain in From, from TOML or JSON files: `local dkim_sign = require \
          'policy-extras.dkim_sign'`. Of several authors the first decides; more of signing is in \
          [authentication.md](../authentication.md#signing).",
    functions: FUNCTIONS,
    groups: &[
        Group {
            title: "Files of signatures",
            doc: "Defaults are in `base`; `domain` has a block for each author's domain, `signature` those of \
                  further signers. Unknown sections and keys are errors.",
            example: Some(EXAMPLE),
            shape: Shape::Keys,
            names: BASE,
        },
        Group { title: "Blocks of signers", doc: "What signs.", example: None, shape: Shape::Keys, names: BLOCKS },
    ],
};

const FUNCTIONS: &[Name] = &[shown(
    "dkim_sign:setup",
    "(files) -> function",
    "The function that signs a message: to be called last, as later changes would break the signatures. Mail \
     without an address in From is refused with 552 5.6.0; mail that no block is about stays unsigned.",
    FROM,
)];

const BASE: &[Name] = &[
    shown(
        "dkim_data.base.selector",
        "string or nil",
        "The selector of blocks that have none. One that is left without is an error when mail is signed, and at \
         `--validate`.",
        SAYS,
    ),
    shown(
        "dkim_data.base.headers",
        "list<string> or nil",
        "The header fields that are signed where a block has no list of its own. From must be among them.",
        SAYS,
    ),
    shown(
        "dkim_data.base.expiration",
        "integer or nil",
        "Lifetime of signatures in seconds. When absent they do not expire.",
        SAYS,
    ),
    shown(
        "dkim_data.base.header_canonicalization",
        "'Relaxed' or 'Simple' = 'Relaxed'",
        "How header fields are made canonical: `Relaxed` lets white space and the case of names change on the way.",
        SAYS,
    ),
    shown(
        "dkim_data.base.body_canonicalization",
        "'Relaxed' or 'Simple' = 'Relaxed'",
        "How the body is made canonical: `Relaxed` lets white space within lines and at their ends change on the way.",
        SAYS,
    ),
    shown(
        "dkim_data.base.over_sign",
        "boolean = false",
        "Signs each field once more than it occurs, so that nobody can add one.",
        SAYS,
    ),
    shown(
        "dkim_data.base.additional_signatures",
        "list<string> = {}",
        "Blocks of `signature` that sign behind the domain's own, in this order. A name without a block, and a \
         block without a domain, is an error.",
        FROM,
    ),
    unshown(
        "dkim_data.base.policy",
        "'Always'",
        "Read and not looked at: each block of `signature` has a policy of its own.",
    ),
    shown(
        "dkim_data.base.vault_mount",
        "string or nil",
        "Has keys come from HashiCorp Vault: the mount of its KV 2 engine. Server and token are those of \
         `VAULT_ADDR` and `VAULT_TOKEN`.",
        VAULT,
    ),
    shown(
        "dkim_data.base.vault_path_prefix",
        "string = 'dkim'",
        "Where keys are in Vault: `PREFIX/DOMAIN/SELECTOR`, unless a block has a `filename`.",
        VAULT,
    ),
    own(
        "dkim_data.base.self_check",
        "boolean = false",
        "Holds each signature against the message and the public half of the key before it is put there; one that \
         does not hold is an error. Ours.",
        BOTH,
    ),
    own(
        "dkim_data.base.dual",
        "boolean = false",
        "Signs with an Ed25519 key too, below the signature with the RSA key of the block. Ours.",
        BOTH,
    ),
];

const BLOCKS: &[Name] = &[
    shown(
        "dkim_data.domain.NAME",
        "table",
        "What signs mail whose From is of this domain, or below it for `*.example.com`. It takes the keys of \
         `base`, but neither `additional_signatures` nor those for Vault, and the four below; what it says goes \
         before what `base` says.",
        FROM,
    ),
    own(
        "dkim_data.domain.NAME.algo",
        "'sha256' or 'ed25519' = 'sha256'",
        "Which kind of key it is: Ed25519, or RSA.",
        FROM,
    ),
    own(
        "dkim_data.domain.NAME.filename",
        "string or nil",
        "The file of the key, or with `vault_mount` its path in Vault. When absent it is \
         `/opt/kumomta/etc/dkim/DOMAIN/SELECTOR.key`.",
        FROM,
    ),
    own(
        "dkim_data.domain.NAME.ed25519_selector",
        "string or nil",
        "With `dual`, the selector of the second key: the first one's with `-ed25519` behind it when absent. Ours.",
        BOTH,
    ),
    own(
        "dkim_data.domain.NAME.ed25519_filename",
        "string or nil",
        "With `dual`, the file of the second key, which is looked for by its selector when absent. Ours.",
        BOTH,
    ),
    shown(
        "dkim_data.signature.NAME",
        "table",
        "A further signature, made where `additional_signatures` names it: the keys of `domain`, and the two below.",
        FROM,
    ),
    own(
        "dkim_data.signature.NAME.domain",
        "string",
        "The signing domain, which need not be that of From. Required.",
        FROM,
    ),
    own(
        "dkim_data.signature.NAME.policy",
        "'Always' or 'OnlyIfMissingDomainBlock' = 'Always'",
        "The second word signs only mail whose domain has no block of its own.",
        FROM,
    ),
];

const EXAMPLE: &str = r#"[base]
selector = "s1"
headers = ["From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type"]
over_sign = true
additional_signatures = ["provider"]

[domain."example.com"]
filename = "/opt/kumomta/etc/dkim/example.key"

[domain."*.example.com"]
selector = "below"

[signature."provider"]
domain = "provider.example"
policy = "OnlyIfMissingDomainBlock""#;

const FROM: &str = "crates/lua/tests/scripts/extras.rs::signatures_follow_the_from_header";
const SAYS: &str = "crates/lua/tests/scripts/extras.rs::a_signature_is_what_its_file_says";
const VAULT: &str = "testing/e2e/tests/http_scripts.rs::keys_that_sign_may_be_in_vault";
const BOTH: &str = "crates/lua/tests/scripts/signing.rs::one_switch_signs_with_both_kinds_of_keys";
