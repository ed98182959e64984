//! `policy-extras.log_hooks`: its functions and their options.
//!
//! Facts: share/policy-extras/log_hooks.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, own, own_unshown, shown};

/// The helper.
pub(crate) const LOG_HOOKS: Helper = Helper {
    name: "policy-extras.log_hooks",
    doc: "Log records as messages, which the queues deliver to where a policy says: `local log_hooks = require \
          'policy-extras.log_hooks'`. It is called at the top level, before `policy-extras.queue` is set up; more is \
          in [log-hooks.md](../log-hooks.md).",
    functions: FUNCTIONS,
    groups: &[Group {
        title: "Options of hooks",
        doc: "What the three functions take.",
        example: None,
        shape: Shape::Keys,
        names: OPTIONS,
    }],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "log_hooks:new",
        "{name, constructor, ...}",
        "Has log records wait as messages in the queue `NAME.log_hook`, and delivered by the connection objects \
         that `constructor` makes. A name that is there already, an unknown option and a value of another type are \
         errors.",
        HOOKS,
    ),
    shown(
        "log_hooks:new_json",
        "{name, url, ...}",
        "Posts each record to a web server as `application/json`. An answer other than 2xx is final for that \
         record; when none comes it is tried again. It takes the options of `new` but `constructor`.",
        HOOKS,
    ),
    shown(
        "log_hooks:new_disposition_hook",
        "{name, hook}",
        "Has `hook(msg, record)` called about what is logged of each message, while that is at hand.",
        DISPOSITION,
    ),
];

const OPTIONS: &[Name] = &[
    own("log_hooks.options.name", "string", "The name of the hook. Required, and not empty.", HOOKS),
    own(
        "log_hooks.options.constructor",
        "function",
        "`(domain, tenant, campaign)` -> [connection object](types.md#connection-objects). Required for `new`.",
        HOOKS,
    ),
    own("log_hooks.options.url", "string", "Where `new_json` posts to. Required there.", HOOKS),
    own(
        "log_hooks.options.hook",
        "function",
        "What `new_disposition_hook` calls. Required there, where `name` is the only other option.",
        DISPOSITION,
    ),
    own(
        "log_hooks.options.log_parameters",
        "table = {}",
        "Options of [kumo.configure_log_hook](options.md#kumoconfigure_log_hook): which records, and what they tell \
         of a message.",
        HOOKS,
    ),
    own(
        "log_hooks.options.queue_config",
        "table = {}",
        "Options of `kumo.make_queue_config` for the hook's queue, over `retry_interval = '1m'` and \
         `max_retry_interval = '20m'`. Its protocol stays.",
        HOOKS,
    ),
    own(
        "log_hooks.options.batch_size",
        "integer = 1",
        "Most messages a call: with more than one the connection object needs `send_batch`.",
        HOOKS,
    ),
    own_unshown(
        "log_hooks.options.min_batch_size",
        "integer or nil",
        "A batch goes once it has so many; when absent, once it is full or `max_batch_latency` is over.",
    ),
    own_unshown(
        "log_hooks.options.max_batch_latency",
        "duration = '0s'",
        "A batch goes so long after its first message came, full or not.",
    ),
    own(
        "log_hooks.options.filter",
        "function or nil",
        "`(msg, hook_name)` -> boolean. `true` drops the record; `msg:get_meta 'log_record'` is the record.",
        HOOKS,
    ),
];

const HOOKS: &str = "testing/e2e/tests/log_hooks.rs::records_become_messages";
const DISPOSITION: &str = "testing/e2e/corpus/log_disposition.lua";
