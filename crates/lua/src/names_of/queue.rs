//! `policy-extras.queue`: what it offers, its options, and the keys of its files.
//!
//! Facts: share/policy-extras/queue.lua and queue_files.lua, and `each_message` beside this folder.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, own, own_unshown, shown};

/// The helper.
pub(crate) const QUEUE: Helper = Helper {
    name: "policy-extras.queue",
    doc: "Tenants, campaigns and the configuration of queues, from TOML or JSON files: `local queue = require \
          'policy-extras.queue'`. It is set up at the top level, behind every other handler of `get_queue_config`; \
          files are read again in a new configuration epoch.",
    functions: FUNCTIONS,
    groups: &[
        Group {
            title: "Options of setup_with_options",
            doc: "What `queue:setup_with_options` takes.",
            example: None,
            shape: Shape::Keys,
            names: OPTIONS,
        },
        Group {
            title: "Files of queues",
            doc: "Options are those of [kumo.make_queue_config](options.md#kumomake_queue_config). For one queue \
                  the more specific block wins, in this order: `queue.default`, the domain, the tenant, the domain \
                  and the tenant, the domain and the tenant and the campaign. Unknown keys are errors.",
            example: Some(EXAMPLE),
            shape: Shape::Keys,
            names: KEYS,
        },
    ],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "queue:setup",
        "(files) -> helper",
        "Has queues be configured by these files, later ones over earlier ones: answers `get_queue_config` and, \
         where tenants have rates, `throttle_insert_ready_queue`. A file is a path (TOML if it ends in `.toml`, else \
         JSON) or a table of the same shape; anything else, and a second call, is an error.",
        SPECIFIC,
    ),
    shown(
        "queue:setup_with_options",
        "{file_names, ...} -> helper",
        "The same with the options below. An unknown one is an error that names the nearest.",
        FILES_IN_ORDER,
    ),
    shown(
        "helper:apply",
        "(msg)",
        "Gives a message its scheduling, campaign, tenant and route, from its header fields and the files: to be \
         called where mail is taken in, before it is signed. A tenant that is not defined, or that is for other \
         users, is refused with 500.",
        WHOSE,
    ),
    shown(
        "helper:resolve_config",
        "(domain, tenant or nil, campaign or nil) -> table",
        "What the files come to for a queue: options of `kumo.make_queue_config`, and `routing_domain`. \
         `refresh_strategy` is `Epoch` unless a file says otherwise.",
        ASKED,
    ),
    shown(
        "queue:resolve_provider",
        "(domain, routing_domain or nil) -> string or nil",
        "The `provider_name` of the path that mail for the domain would take from the source `unspecified`; nil \
         where DNS does not answer or the path has none. It is remembered for a minute.",
        PROVIDER,
    ),
    shown(
        "queue.is_queue_config_option",
        "(name, value) -> boolean, string or nil",
        "Whether `kumo.make_queue_config` has an option of this name and takes this value; behind `false` stands \
         why not.",
        ANSWER,
    ),
];

const OPTIONS: &[Name] = &[
    own(
        "queue.options.file_names",
        "list",
        "What `setup` takes: paths, and tables of the same shape. Required.",
        FILES_IN_ORDER,
    ),
    own(
        "queue.options.skip_queue_config_hook",
        "boolean = false",
        "Leaves `get_queue_config` to the policy, which asks `helper:resolve_config` itself.",
        FILES_IN_ORDER,
    ),
    own_unshown(
        "queue.options.invalidate_with_epoch",
        "boolean = true",
        "Files are read again as soon as a new configuration epoch begins; without it, when a minute is over.",
    ),
];

const KEYS: &[Name] = &[
    shown(
        "queue.toml.scheduling_header",
        "string or nil",
        "The header field with a message's scheduling as JSON, which \
         [message:set_scheduling](kumo.md#messageset_scheduling) describes. It is taken off the message.",
        WHOSE,
    ),
    shown("queue.toml.tenant_header", "string or nil", "The header field that names a message's tenant.", WHOSE),
    shown("queue.toml.remove_tenant_header", "boolean = false", "Takes that field off once it is read.", WHOSE),
    shown(
        "queue.toml.campaign_header",
        "string or nil",
        "The header field that names a message's campaign, which may be any text.",
        WHOSE,
    ),
    shown("queue.toml.remove_campaign_header", "boolean = false", "Takes that field off once it is read.", WHOSE),
    shown(
        "queue.toml.default_tenant",
        "string or nil",
        "The tenant of messages that name none. It must have a block.",
        WHOSE,
    ),
    shown(
        "queue.toml.tenant.NAME",
        "table",
        "A tenant: options for all of its queues, and the three keys below. Mail may name it once there is a block, \
         if only an empty one.",
        SPECIFIC,
    ),
    shown(
        "queue.toml.tenant.NAME.require_authz",
        "list<string> or nil",
        "Who may send as this tenant, by `authz_id` of SMTP AUTH. Everybody else is refused with 500.",
        WHOSE,
    ),
    shown(
        "queue.toml.tenant.NAME.overall_max_message_rate",
        "ThrottleSpec or nil",
        "How fast mail of the tenant becomes ready, over all of its queues. What is too much is put off.",
        RATES,
    ),
    shown(
        "queue.toml.tenant.NAME.campaigns.C.overall_max_message_rate",
        "ThrottleSpec or nil",
        "The same for one campaign of the tenant. It counts besides the tenant's own rate.",
        RATES,
    ),
    shown("queue.toml.queue.default", "table", "Options for every queue.", SPECIFIC),
    shown(
        "queue.toml.queue.DOMAIN",
        "table",
        "Options for the queues of a domain; `*.example.com` is all below it. A table in it that is no option is a \
         block of a tenant.",
        SPECIFIC,
    ),
    shown(
        "queue.toml.queue.DOMAIN.TENANT",
        "table",
        "Options for mail of a tenant to that domain; tables in it that are no options are blocks of campaigns. \
         `--validate` says when there is no such tenant.",
        SPECIFIC,
    ),
    shown(
        "queue.toml.queue.DOMAIN.TENANT.CAMPAIGN",
        "table",
        "Options for a campaign of that tenant, before which all others give way.",
        SPECIFIC,
    ),
    shown(
        "queue.toml.routing_domain",
        "string or nil",
        "In a block of a domain, or in those within it: where mail is routed instead. `helper:apply` puts it into \
         the metadata.",
        ROUTED,
    ),
];

const EXAMPLE: &str = r#"tenant_header = "X-Tenant"
remove_tenant_header = true
campaign_header = "X-Campaign"
scheduling_header = "X-Schedule"
default_tenant = "shop"

[tenant."shop"]
egress_pool = "shared"
overall_max_message_rate = "1000/min"

[tenant."shop".campaigns."spring"]
overall_max_message_rate = "200/min"

[tenant."bank"]
egress_pool = "reserved"
require_authz = ["bank"]

[queue.default]
max_age = "3 days"

[queue."slow.example"]
max_message_rate = "10/s"
routing_domain = "mx.slow.example"

[queue."slow.example"."bank"]
max_age = "12 hours"

[queue."slow.example"."bank"."alerts"]
retry_interval = "1m""#;

const WHOSE: &str = "crates/lua/tests/scripts/extras.rs::a_message_says_whose_it_is";
const SPECIFIC: &str = "crates/lua/tests/scripts/extras.rs::the_more_specific_block_of_a_queue_wins";
const ASKED: &str = "crates/lua/tests/scripts/extras.rs::what_a_queue_comes_to_can_be_asked";
const PROVIDER: &str = "crates/lua/tests/scripts/extras.rs::the_provider_of_a_queue_is_that_of_its_path";
const ROUTED: &str = "crates/lua/tests/scripts/extras.rs::mail_is_routed_where_its_queue_says";
const RATES: &str = "crates/lua/tests/scripts/extras.rs::tenants_and_campaigns_have_rates_of_their_own";
const FILES_IN_ORDER: &str = "testing/e2e/corpus/queue_helper_files.lua";
const ANSWER: &str = "testing/e2e/corpus/helpers_answer.lua";
