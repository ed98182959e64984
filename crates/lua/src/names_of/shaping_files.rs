//! The keys of shaping files: blocks of destinations, of providers, and rules.
//!
//! Facts: `shaping`, and for what rules do `automation`. The options in the blocks are `config`'s.

use crate::names_of::{Group, Name, Shape, shown, unshown};

/// Blocks of destinations.
pub(crate) const BLOCKS: Group = Group {
    title: "Shaping files",
    doc: "All options are those of [kumo.make_egress_path](options.md#kumomake_egress_path). What is neither an \
          option nor a key below is an error with file, block, value and the nearest name. `default` may have \
          sources and rules as well.",
    example: Some(EXAMPLE),
    shape: Shape::Keys,
    names: OF_DESTINATIONS,
};

/// Blocks of providers.
pub(crate) const PROVIDERS: Group = Group {
    title: "Providers in shaping files",
    doc: "Destinations that share limits, whatever their domains are. Their options go over `default` and under \
          those of sites and domains.",
    example: None,
    shape: Shape::Keys,
    names: OF_PROVIDERS,
};

/// Rules within both.
pub(crate) const RULES: Group = Group {
    title: "Rules in shaping files",
    doc: "Items of `automation`, which `tsa-daemon` acts on: [automation.md](../automation.md#rules).",
    example: None,
    shape: Shape::Keys,
    names: OF_RULES,
};

const OF_DESTINATIONS: &[Name] = &[
    shown("shaping.default", "table", "Options for every destination.", PATHS),
    shown(
        "shaping.DOMAIN",
        "table",
        "Options for a destination: the site that the domain's MX records lead to, with all domains of that site.",
        PATHS,
    ),
    shown(
        "shaping.DOMAIN.mx_rollup",
        "boolean = true",
        "`false` has the block be about this domain alone, without a question to DNS: for names that are no mail \
         domains, such as those of log hooks. An earlier file's word counts where a later one has none.",
        SITE,
    ),
    shown(
        "shaping.DOMAIN.replace_base",
        "boolean = false",
        "Discards what earlier files said in this block, with sources and rules.",
        REPLACED,
    ),
    shown(
        "shaping.DOMAIN.sources.SOURCE",
        "table",
        "Options for mail from one source. Under `--validate` a source that is not defined is an error.",
        STEPS,
    ),
    shown(
        "shaping.DOMAIN.automation",
        "list of rules",
        "Rules about what its servers answer. Those of several files are added up, equal ones once.",
        OF_DOMAIN,
    ),
];

const OF_PROVIDERS: &[Name] = &[
    shown(
        "shaping.provider.NAME",
        "table",
        "Options for all destinations of a provider. Its name becomes their `provider_name`.",
        ALONE,
    ),
    shown(
        "shaping.provider.NAME.match",
        "list of tables",
        "Whose it is: `{ DomainSuffix = TEXT }`, with which the domain ends, or `{ MXSuffix = TEXT }` and `{ \
         HostName = NAME }`, of which every host of its site must match one. A suffix is a plain end of text; a \
         provider without `match` is about nobody, which is reported.",
        FOLDED,
    ),
    shown(
        "shaping.provider.NAME.provider_connection_limit",
        "LimitSpec or nil",
        "Connections of one source to all of them together: `shaping-provider-NAME-SOURCE-limit` among their \
         `additional_connection_limits`.",
        SHARED,
    ),
    shown(
        "shaping.provider.NAME.provider_max_message_rate",
        "ThrottleSpec or nil",
        "Messages of one source to all of them together: `shaping-provider-NAME-SOURCE-rate` among their \
         `additional_message_rate_throttles`.",
        SHARED,
    ),
    unshown(
        "shaping.provider.NAME.provider_source_selection_rate",
        "ThrottleSpec or nil",
        "How often a pool chooses one source for any of them: `shaping-provider-NAME-SOURCE-selection-rate` among \
         their `additional_source_selection_rates`.",
    ),
    shown("shaping.provider.NAME.sources.SOURCE", "table", "Options for mail from one source to any of them.", STEPS),
    shown(
        "shaping.provider.NAME.replace_base",
        "boolean = false",
        "Discards what earlier files said in this block, with `match`, sources and rules.",
        REPLACED,
    ),
    shown(
        "shaping.provider.NAME.automation",
        "list of rules",
        "Rules about what servers of the provider answer.",
        IN_ORDER,
    ),
];

const OF_RULES: &[Name] = &[
    shown(
        "rule.regex",
        "string or list<string>",
        "What the response must match, one of them suffices: anywhere in its first 4096 octets, as one line. A \
         pattern may look around and has at most 4096 octets; one that backtracks without end is given up, and said \
         so. Required.",
        REGEX,
    ),
    shown(
        "rule.action",
        "string, table or list",
        "What is done: `Suspend`, `SuspendTenant`, `SuspendCampaign`, `Bounce`, `BounceTenant`, `BounceCampaign`, \
         `{ SetConfig = { name = NAME, value = VALUE } }`, or `SetDomainConfig` of the same form. An option and its \
         value must be what `kumo.make_egress_path` takes. Required.",
        ACTION,
    ),
    shown(
        "rule.trigger",
        "'Immediate' or { Threshold = ThrottleSpec } = 'Immediate'",
        "When it is done: at the first response, or from so many on. They are counted for each ready queue within \
         the rule's `duration`, whatever the period in the rate.",
        TRIGGER,
    ),
    shown(
        "rule.duration",
        "duration",
        "How long it lasts, from the last response that brought it about. Required.",
        DURATION,
    ),
    shown(
        "rule.match_internal",
        "boolean = false",
        "It is also about responses of the program's own, which begin with `KumoMTA internal:`.",
        INTERNAL,
    ),
];

const EXAMPLE: &str = r#"["default"]
connection_limit = 10
max_message_rate = "100/s"

["example.com"]
max_connection_rate = "10/min"

["example.com".sources."ip-1"]
connection_limit = 2

["webhook.log_hook"]
mx_rollup = false
connection_limit = 5

[provider."big"]
match = [{ MXSuffix = ".mx.big.example" }, { DomainSuffix = ".big.example" }]
provider_connection_limit = 100
provider_max_message_rate = "1000/s"

[[provider."big".automation]]
regex = "too many (connections|messages)"
action = ["SuspendTenant", { SetConfig = { name = "connection_limit", value = 2 } }]
trigger = { Threshold = "5/hr" }
duration = "1 hour""#;

const PATHS: &str = "crates/lua/tests/scripts/extras.rs::paths_come_from_shaping_files_and_are_checked";
const SITE: &str = "crates/shaping/src/assembly_tests.rs::a_domain_has_a_site_unless_a_document_says_otherwise";
const REPLACED: &str = "crates/shaping/src/assembly_tests.rs::replace_base_discards_what_earlier_documents_said";
const STEPS: &str = "crates/shaping/src/shaping_tests.rs::each_step_wins_over_the_one_before";
const ALONE: &str = "crates/shaping/src/shaping_tests.rs::each_step_is_there_without_the_others";
const FOLDED: &str = "crates/shaping/src/shaping_tests.rs::names_are_compared_in_lower_case_without_final_dots";
const SHARED: &str = "crates/shaping/src/shaping_tests.rs::providers_name_the_path_and_share_limits_by_source";
const IN_ORDER: &str =
    "crates/shaping/src/shaping_tests.rs::rules_come_in_the_order_of_their_blocks_and_only_those_that_match";
const INTERNAL: &str = "crates/shaping/src/shaping_tests.rs::responses_of_our_own_are_for_rules_that_ask_for_them";
const REGEX: &str = "crates/shaping/src/rule_tests.rs::expressions_match_anywhere_and_look_around";
const OF_DOMAIN: &str = "crates/automation/src/automation_tests.rs::rules_of_a_domain_alone_are_about_it_alone";
const ACTION: &str = "crates/automation/src/automation_tests.rs::actions_become_effects_about_what_the_record_names";
const TRIGGER: &str =
    "crates/automation/src/automation_tests.rs::a_threshold_counts_for_each_ready_queue_within_the_duration";
const DURATION: &str =
    "crates/automation/src/automation_tests.rs::what_goes_on_is_told_again_now_and_then_and_never_ends_early";
