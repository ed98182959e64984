//! What stands behind the names of other pages: events that a policy names, and fields of `kumo`.
//!
//! Facts: `courier`, `task`, `disposition` and `signers` beside this folder call the handlers.

use crate::names_of::{Group, Name, Shape, shown};

/// Events whose names a policy makes up: behind those of the program.
pub(crate) const NAMED_EVENTS: Group = Group {
    title: "Events that a policy names",
    doc: "Their names stand in an option, and a handler is registered for them as for any other. Each has one \
          handler.",
    example: None,
    shape: Shape::Members,
    names: EVENTS,
};

/// Fields of `kumo`: behind its functions.
pub(crate) const FIELDS_OF_KUMO: Group = Group {
    title: "Fields of kumo",
    doc: "What `kumo` has beside functions and modules.",
    example: None,
    shape: Shape::Members,
    names: FIELDS,
};

const EVENTS: &[Name] = &[
    shown(
        "CONSTRUCTOR_EVENT",
        "(domain, tenant, campaign) -> connection",
        "Named by `constructor` of `protocol.custom_lua`: makes the [connection \
         object](types.md#connection-objects) of a session, for one of the queues that feed it. An error is a \
         failure to connect.",
        SESSION,
    ),
    shown(
        "TASK_EVENT",
        "(args)",
        "Named by `event_name` of `kumo.spawn_task`: runs beside the service, and is given the list of its \
         arguments. An error is logged and ends it.",
        TASKS,
    ),
    shown(
        "KEYSOURCE_EVENT",
        "(...) -> string",
        "Named by `event_name` of a [KeySource](types.md#typekeysource): returns the secret. It is given what \
         `event_args` lists, one by one.",
        KEYS,
    ),
    shown(
        "FILTER_EVENT",
        "(msg) -> boolean",
        "Named by `filter_event` of `kumo.configure_local_logs`: whether a record about this message is logged. An \
         error, or an answer of another type, drops the record and is said in the log; refusals, which have no \
         message, are not asked about.",
        FILTER,
    ),
    shown(
        "log_disposition_NAME",
        "(msg, record)",
        "`NAME` is that of `kumo.configure_log_disposition_hook`: hears what is logged of a message while that is \
         at hand. What it changes of the message is forgotten; of refusals it does not hear.",
        NOTICES,
    ),
];

const FIELDS: &[Name] = &[shown("kumo.version", "string", "The version. It compares as text with KumoMTA's.", VERSION)];

const SESSION: &str =
    "testing/e2e/tests/custom_lua.rs::a_session_keeps_its_object_and_its_deliveries_are_logged_as_lua";
const TASKS: &str = "testing/e2e/tests/tasks.rs::tasks_run_beside_the_service";
const KEYS: &str = "crates/lua/tests/scripts/signing.rs::keys_come_from_events";
const FILTER: &str = "testing/e2e/tests/log_hooks.rs::a_filter_decides_what_a_logger_keeps";
const NOTICES: &str = "testing/e2e/tests/notices.rs::a_hook_reports_failures_and_nothing_else";
const VERSION: &str = "crates/lua/tests/scripts/options.rs::tuning_functions_check_their_arguments";
