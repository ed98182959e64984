//! Types of values, and objects that no module describes: results of checks, connection objects of scripts.
//!
//! Facts: `config` reads the values, `access` has AuthInfo, `courier` beside this folder calls connection objects.

use crate::names_of::{Group, Name, Shape, shown, unshown};
use crate::value_names::Page;

/// The page.
pub(crate) const TYPES: Page = Page {
    name: "types",
    title: "Types",
    doc: "How values are written, and what objects are that have no page of their own.",
    groups: &[
        Group {
            title: "Values",
            doc: "How options, and the keys of files, are written.",
            example: None,
            shape: Shape::Forms,
            names: VALUES,
        },
        Group {
            title: "Objects",
            doc: "What functions return and handlers are given.",
            example: None,
            shape: Shape::Forms,
            names: OBJECTS,
        },
        Group {
            title: "Authentication results",
            doc: "What checks of a message return, and `msg:add_authentication_results` writes (RFC 8601). Unknown \
                  fields are errors.",
            example: None,
            shape: Shape::Keys,
            names: RESULTS,
        },
        Group {
            title: "Connection objects",
            doc: "What the constructor of `protocol.custom_lua` and of `policy-extras.log_hooks` returns: a table \
                  with these methods, which stays as long as the session. More is in \
                  [protocols.md](../protocols.md#to-a-script).",
            example: None,
            shape: Shape::Members,
            names: CONNECTIONS,
        },
    ],
};

const VALUES: &[Name] = &[
    shown(
        "type.duration",
        "number of seconds, or text such as '5m', '1 hour 30min', '500ms'",
        "A length of time, not negative. Units are `ns`, `us`, `ms`, `s`, `m` (minute), `h`, `d`, `w`, `M` (month) \
         and `y`, and their names; a unit that is missing or unknown, and a fraction in a text, is an error.",
        DURATION,
    ),
    shown("type.size", "integer", "Octets. There is no text such as `10MB`: scripts compute `10 * 1024 * 1024`.", SIZE),
    shown(
        "type.MinFree",
        "'10%', or integer",
        "How much of a disk must stay free: a percentage of the whole, 0 to 100, or an amount, which may be a text.",
        MIN_FREE,
    ),
    shown(
        "type.ThrottleSpec",
        "'[local:]QTY/[N]PERIOD[,max_burst=B]', such as '100/min' or 'local:20/30s'",
        "A rate. `QTY` and `B` are integers from 1 on, in which `,` and `_` may stand; `PERIOD` is `s`, `m`, `h` or \
         `d`, or its name, and `N` how many of them. `B` is how many may go at once, `QTY` when absent; `local:` \
         keeps the count within this node.",
        THROTTLE,
    ),
    shown(
        "type.LimitSpec",
        "integer, or '[local:]N'",
        "A number that is not exceeded, from 1 on; `,` and `_` may stand in the text. `local:` keeps the count \
         within this node.",
        LIMIT,
    ),
    shown(
        "type.CidrSet",
        "list of addresses and blocks, such as { '192.0.2.1', '10.0.0.0/8' }",
        "A set of addresses. A block whose host bits are not zero is an error that names the right one; there are \
         no names of hosts.",
        CIDR,
    ),
    shown(
        "type.cidr_map",
        "table from addresses and blocks to values",
        "The value of the longest block that an address lies in counts. A block that stands there twice is an error.",
        CIDR_MAP,
    ),
    shown(
        "type.KeySource",
        "path, { key_data }, { vault_mount, vault_path, ... } or { event_name, event_args }",
        "Where a key, a certificate or a password is: in a file (a text is always a path), right here, in HashiCorp \
         Vault (also `vault_key = 'key'`, `vault_address`, `vault_token`, of which the last two are `VAULT_ADDR` and \
         `VAULT_TOKEN` of the environment when absent), or with a handler of the policy. None of these, or several, \
         is an error.",
        KEY_SOURCE,
    ),
    shown(
        "type.DateTime",
        "'2026-11-25T12:00:00Z'",
        "A moment, as RFC 3339 writes it, with any offset; what is finer than microseconds is cut off.",
        EXAMPLES,
    ),
    shown(
        "type.Regex",
        "text",
        "A regular expression of Rust's kind, with look-around and back-references in `kumo.regex` and in rules of \
         shaping files. A search that backtracks without end is given up.",
        REGEX,
    ),
    unshown(
        "type.MemoryReductionPolicy",
        "'ShrinkDataAndMeta', 'ShrinkData' or 'NoShrink'",
        "What a waiting message lets go of in memory. It is read and checked; the content of waiting messages \
         always leaves memory.",
    ),
];

const OBJECTS: &[Name] = &[
    shown(
        "type.BinaryResult",
        "userdata",
        "Octets, as [kumo.digest](kumo.digest.md#binaryresult) and others return them; `tostring` shows them in hex.",
        EXAMPLES,
    ),
    shown(
        "type.Rejection",
        "error",
        "What `kumo.reject` and `kumo.disconnect` raise: `tostring` gives the reply. It goes through `pcall` and \
         `error` without becoming another error.",
        REJECTION,
    ),
    shown(
        "type.AuthInfo",
        "{ peer_address, identities = list of { identity, context = 'GenericAuth' }, groups }",
        "Who somebody is: where from, who was proven by what, and the groups they are in. Of SMTP AUTH the contexts \
         are `SmtpAuthPlainAuthorization` and `SmtpAuthPlainAuthentication`; a handler names one identity at least, \
         and the first stands in for a context that it leaves out. Unknown fields are errors.",
        AUTH_INFO,
    ),
];

const RESULTS: &[Name] = &[
    shown(
        "method",
        "string",
        "What was checked: `spf`, `dkim`, `dmarc`, `arc`, `iprev`, `auth`, ... Required.",
        FIELDS,
    ),
    shown("method_version", "integer or nil", "The version of the method, where it is not the first.", FIELDS),
    shown("result", "string", "What came of it: `pass`, `fail`, `none`, ... Required.", FIELDS),
    shown("reason", "string or nil", "Why, for people.", FIELDS),
    shown("props", "table = {}", "What it is about, by names such as `smtp.mailfrom` and `header.d`.", FIELDS),
];

const CONNECTIONS: &[Name] = &[
    shown(
        "connection:send",
        "(msg) -> string",
        "Delivers a message: the text is what is logged. `kumo.reject` says that it failed, for now (4xx) or for \
         good (5xx); any other error has it tried again and ends the session.",
        SESSION,
    ),
    shown(
        "connection:send_batch",
        "(messages) -> string",
        "The same for a list of one message or more, called instead of `send` where `batch_size` is more than 1. \
         What is answered holds for all of them.",
        BATCHES,
    ),
    shown("connection:close", "()", "The session ends. It may be absent; errors are logged, and it has 10 s.", SESSION),
];

const DURATION: &str = "crates/config/src/duration.rs::reads_every_unit";
const SIZE: &str = "crates/lua/tests/scripts/options.rs::sizes_are_numbers_of_octets";
const MIN_FREE: &str = "crates/config/src/min_free.rs::reads_writes_and_judges";
const THROTTLE: &str = "crates/config/src/throttle.rs::reads_and_writes_canonical_text";
const LIMIT: &str = "crates/config/src/limit.rs::reads_both_forms";
const CIDR: &str = "crates/config/src/cidr.rs::membership";
const CIDR_MAP: &str = "crates/config/src/cidr_map.rs::longest_prefix_wins";
const KEY_SOURCE: &str = "crates/config/src/key_source.rs::reads_and_writes_every_form";
const EXAMPLES: &str = "crates/lua/tests/scripts/modules.rs::every_example_of_the_manual_holds";
const REGEX: &str = "crates/shaping/src/rule_tests.rs::expressions_match_anywhere_and_look_around";
const REJECTION: &str = "testing/e2e/tests/policy.rs::a_rejection_has_the_code_and_text_policy_gave";
const AUTH_INFO: &str = "crates/lua/tests/scripts/answers.rs::credentials";
const FIELDS: &str = "crates/lua/tests/scripts/headers.rs::authentication_results_have_every_field";
const SESSION: &str =
    "testing/e2e/tests/custom_lua.rs::a_session_keeps_its_object_and_its_deliveries_are_logged_as_lua";
const BATCHES: &str = "testing/e2e/tests/custom_lua.rs::batches_wait_for_more_and_share_their_verdict";
