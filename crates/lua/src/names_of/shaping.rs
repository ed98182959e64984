//! `policy-extras.shaping`: what it offers, its options and its events. The keys of shaping files are in `shaping_files`.
//!
//! Facts: share/policy-extras/shaping.lua, shaping_checks.lua, tsa_publishing.lua and tsa_following.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, shaping_files, shown, unshown};

/// The helper.
pub(crate) const SHAPING: Helper = Helper {
    name: "policy-extras.shaping",
    doc: "Traffic shaping, from shaping files and from what daemons make of log records: `local shaping = require \
          'policy-extras.shaping'`. It goes before `policy-extras.queue`; what wins over what is in \
          [shaping.md](../shaping.md).",
    functions: FUNCTIONS,
    groups: &[
        Group {
            title: "Options of setup_with_automation",
            doc: "Daemons are named by plain http or https URLs, each once. What they do is in \
                  [automation.md](../automation.md).",
            example: None,
            shape: Shape::Keys,
            names: OPTIONS,
        },
        Group {
            title: "Events of its own",
            doc: "Where `subscribe` names a daemon the helper handles these itself, and `setup_publish` starts \
                  them: a policy has nothing to do about them.",
            example: None,
            shape: Shape::Members,
            names: EVENTS,
        },
        shaping_files::BLOCKS,
        shaping_files::PROVIDERS,
        shaping_files::RULES,
    ],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "shaping:setup",
        "(extra_files or nil) -> function",
        "The handler for `kumo.on('get_egress_path_config', ...)`, from the default file and these. Nothing is \
         published, and no daemon is followed.",
        PATHS,
    ),
    shown(
        "shaping:setup_with_automation",
        "{options} -> shaper",
        "The same with the options below, all of which may be left out. An unknown option, a value of another type \
         and a second call are errors.",
        PATHS,
    ),
    shown(
        "shaper.get_egress_path_config",
        "(domain, egress_source, site_name, skip_make or nil) -> EgressPath or table",
        "For `kumo.on('get_egress_path_config', ...)`. `refresh_strategy` is `Epoch` unless a file says otherwise; \
         with `skip_make` the options come as a table.",
        PATHS,
    ),
    shown(
        "shaper.setup_publish",
        "()",
        "In `init`: starts what `publish` and `subscribe` need, a log hook for each daemon that is published to, a \
         task for each that is followed, and one that watches the shaping data.",
        DAEMON,
    ),
    shown(
        "shaper.load_shaping_data",
        "() -> Shaping",
        "What the files come to, as [kumo.shaping.load](kumo.shaping.md#kumoshapingload) returns it; it is kept for \
         `cache_ttl`.",
        ANSWER,
    ),
];

const OPTIONS: &[Name] = &[
    shown(
        "shaping.options.extra_files",
        "list<string> = {}",
        "Shaping files behind the default one, paths or URLs. Later ones win.",
        PATHS,
    ),
    shown(
        "shaping.options.no_default_files",
        "boolean = false",
        "Leaves out the default file: `/opt/kumomta/share/policy-extras/shaping.toml`, or where that is not there \
         the one that is carried in the program.",
        PATHS,
    ),
    shown(
        "shaping.options.cache_ttl",
        "duration = '1 minute'",
        "How long shaping data is kept before the files are read again. A new configuration epoch ends \
         it too.",
        DAEMON,
    ),
    shown(
        "shaping.options.publish",
        "list<string> = {}",
        "Base URLs of the daemons that are told of log records. A record that a daemon does not take is sent again \
         later.",
        DAEMON,
    ),
    shown(
        "shaping.options.subscribe",
        "list<string> = {}",
        "Base URLs of the daemons that are followed: their suspensions and bounces are carried out, and the options \
         they set are the last of the shaping files.",
        DAEMON,
    ),
    shown(
        "shaping.options.pre_filter",
        "boolean = true",
        "Publishes only records whose response matches a rule; `false` sends all, for a daemon with rules of its own.",
        ALL,
    ),
    unshown(
        "shaping.options.skip_log_record_types",
        "list<string> or nil",
        "Types of records that are not published. When absent these are AdminRebind, \
         DeferredInjectionRebind, Delayed, Reception, Rejection, XferIn and XferOut.",
    ),
    shown(
        "shaping.options.additional_skip_log_record_types",
        "list<string> = {}",
        "Types that are left out besides.",
        ALL,
    ),
    shown(
        "shaping.options.tsa_queue_config",
        "table = {}",
        "Options of `kumo.make_queue_config` for the queues in which records wait, over `retry_interval = '1m'` and \
         `max_retry_interval = '20m'`. Their protocol stays.",
        AWAY,
    ),
    unshown(
        "shaping.options.back_pressure",
        "integer or nil",
        "`back_pressure` of the log hooks: how many records may wait before those who log wait too. 128000 when \
         absent.",
    ),
    unshown(
        "shaping.options.load_validation_options",
        "table or nil",
        "Options of `kumo.shaping.load` while the program serves.",
    ),
    unshown(
        "shaping.options.validation_options",
        "table = {}",
        "The same under `--validate`, over `Warn` for `aliased_site`, `dns_fail`, `null_mx` and `provider_overlap`, \
         and `skip_remote = true`.",
    ),
    unshown(
        "shaping.options.shaping_data_populate_timeout",
        "duration or nil",
        "How long a handler waits for another one that is reading the files: `populate_timeout` of \
         [kumo.memoize](options.md#kumomemoize). 120 s when absent.",
    ),
    unshown(
        "shaping.options.retry_shaping_data_fetch_on_populate_timeout",
        "boolean = false",
        "Has it try again when that wait was in vain: `retry_on_populate_timeout` of the same.",
    ),
    unshown(
        "shaping.options.allow_stale_shaping_data",
        "boolean = false",
        "While files are read anew, handlers get what was read before: `allow_stale_reads` of the same.",
    ),
    unshown("shaping.options.publish_timeout", "duration = '1 minute'", "Time limit for telling a daemon of a record."),
    unshown(
        "shaping.options.publish_pool_idle_timeout",
        "duration = '90 seconds'",
        "How long an idle connection to a daemon is kept.",
    ),
    unshown(
        "shaping.options.publish_connection_verbose",
        "boolean or nil",
        "Handed on to `kumo.http.build_client`, where it does nothing.",
    ),
];

const EVENTS: &[Name] = &[
    shown(
        "kumo.tsa.suspension.subscriber",
        "(args)",
        "The task that follows the daemon whose URL is `args[1]`, and gives the orders it asks for. A connection \
         that ends is made again after 30 s.",
        DAEMON,
    ),
    shown(
        "kumo.tsa.config.monitor",
        "(args)",
        "The task that looks at the shaping data every 30 s, or every `cache_ttl` where that is shorter. When it \
         has changed a new configuration epoch begins.",
        DAEMON,
    ),
];

const PATHS: &str = "crates/lua/tests/scripts/extras.rs::paths_come_from_shaping_files_and_are_checked";
const ANSWER: &str = "testing/e2e/corpus/helpers_answer.lua";
const DAEMON: &str = "testing/e2e/tests/tsa.rs::what_servers_answer_shapes_what_nodes_do";
const ALL: &str = "testing/e2e/tests/tsa.rs::all_records_are_published_but_of_some_types";
const AWAY: &str = "testing/e2e/tests/tsa.rs::records_wait_for_a_daemon_that_is_away";
