//! The events scripts may handle: their arguments, whether several handlers are asked, and what shows that they are raised.

use crate::api::Proof::{self, Test};

/// An event.
pub struct Event {
    /// As `kumo.on` takes it.
    pub name: &'static str,
    /// Arguments and results of a handler.
    pub signature: &'static str,
    /// True when it may have several handlers, asked in turn until one answers.
    pub is_multiple: bool,
    /// When it is raised, and what its answer does.
    pub doc: &'static str,
    /// What shows that it is.
    pub proof: Proof,
}

const fn single(name: &'static str, signature: &'static str, doc: &'static str, proof: Proof) -> Event {
    Event { name, signature, is_multiple: false, doc, proof }
}

const fn multiple(name: &'static str, signature: &'static str, doc: &'static str, proof: Proof) -> Event {
    Event { name, signature, is_multiple: true, doc, proof }
}

/// Every event that is raised, in the order in which a message meets them.
pub const EVENTS: &[Event] = &[
    multiple(
        "pre_init",
        "()",
        "Before `init`.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
    ),
    single(
        "init",
        "()",
        "Once, at the start: spools, logs and listeners are set up here. An error ends the start.",
        Test("crates/lua/tests/scripts/startup.rs::init_collects_what_is_to_be_started"),
    ),
    multiple(
        "validate_config",
        "()",
        "Under `--validate`, after `init`: handlers print what is wrong and call `kumo.validation_failed`.",
        Test("crates/lua/tests/scripts/startup.rs::validation_runs_the_handlers_that_judge"),
    ),
    single(
        "main",
        "(argument, ...)",
        "Only under `kumod --script`, and there alone: the file is run as a command, with what stands behind `--` as strings. Neither \
         `pre_init` nor `init` run, and nothing is started. It may take as long as it likes; an error ends the program with status 1.",
        Test("testing/e2e/tests/scripts.rs::a_policy_file_may_be_a_command"),
    ),
    single(
        "smtp_server_connection_accepted",
        "(conn_meta)",
        "A client connected; a rejection is the greeting.",
        Test("testing/e2e/corpus/connect_reject.lua"),
    ),
    single(
        "smtp_server_ehlo",
        "(domain, conn_meta, extensions) -> list or nil",
        "EHLO or HELO. A list replaces what is announced.",
        Test("crates/lua/tests/scripts/answers.rs::arguments_arrive_in_kumomtas_order"),
    ),
    single(
        "smtp_server_auth_plain",
        "(authz, authc, password, conn_meta) -> boolean or AuthInfo",
        "AUTH PLAIN or LOGIN, under TLS.",
        Test("crates/lua/tests/scripts/answers.rs::credentials"),
    ),
    single(
        "smtp_server_mail_from",
        "(sender, conn_meta)",
        "MAIL FROM.",
        Test("testing/e2e/tests/policy.rs::a_rejection_has_the_code_and_text_policy_gave"),
    ),
    single(
        "get_listener_domain",
        "(domain, listener, conn_meta) -> ListenerDomain or nil",
        "What the listener does for the domain of a sender or a recipient.",
        Test("testing/e2e/tests/reports.rs::what_is_dropped_and_what_is_no_report"),
    ),
    single(
        "smtp_server_rcpt_to",
        "(recipient, conn_meta)",
        "RCPT TO, once relaying is allowed.",
        Test("testing/e2e/tests/policy.rs::a_rejection_has_the_code_and_text_policy_gave"),
    ),
    single(
        "smtp_server_data",
        "(msg, conn_meta)",
        "The whole transaction, before it is split into messages.",
        Test("testing/e2e/corpus/data_reject.lua"),
    ),
    single(
        "smtp_server_message_received",
        "(msg, conn_meta)",
        "Each message of a transaction: the place to set metadata and to sign. A rejection rejects all of the transaction.",
        Test("testing/e2e/tests/policy.rs::a_rejection_has_the_code_and_text_policy_gave"),
    ),
    single(
        "smtp_server_get_dynamic_parameters",
        "(listener, conn_meta) -> table or nil",
        "Before the banner, and again when a proxy says by XCLIENT for whom it speaks: options of `start_esmtp_listener` that count for this \
         session, over those of its listener and its `peer` and `via` blocks; not `listen`, `max_connections` or, as it is too \
         late, `require_proxy_protocol`. `listener` is the local address and port. A rejection is the greeting.",
        Test("testing/e2e/tests/listeners.rs::what_a_session_runs_by_is_for_policy_to_say"),
    ),
    single(
        "smtp_server_split_transaction",
        "(msg, conn_meta) -> list of lists of addresses, or nil",
        "The transaction, behind `smtp_server_data`: one message is made for each list, which together have every recipient \
         once. Nil leaves it to `batch_handling`.",
        Test("testing/e2e/tests/listeners.rs::whom_messages_go_to_is_for_policy_to_say"),
    ),
    single(
        "smtp_server_message_deferred_inject",
        "(msg, conn_meta)",
        "Each message of a listener with `deferred_queue`, some time after it was accepted, in place of \
         `smtp_server_message_received`. `conn_meta` has what the message knows of its connection; what is set there is lost. A final \
         rejection bounces the message, any other error has it tried again, after 10 s at first and a minute at most.",
        Test("testing/e2e/tests/listeners.rs::messages_that_wait_for_their_policy"),
    ),
    single(
        "smtp_server_rewrite_response",
        "(status, response, command or nil, conn_meta) -> status or nil, response or nil",
        "Every reply, just before it is written: what is returned takes its place, and changes nothing else. `response` is without the \
         status, its lines parted by `\\n`; `command` is the line it answers. A 421 ends the session. Errors are logged.",
        Test("testing/e2e/tests/listeners.rs::replies_are_for_policy_to_word"),
    ),
    single(
        "http_server_validate_auth_basic",
        "(user, password or nil) -> boolean or AuthInfo",
        "A client of an HTTP listener sends a user's name and password. What is answered holds for a minute; without a handler they \
         are wrong.",
        Test("testing/e2e/tests/injection.rs::who_may_inject_is_for_policy_to_say"),
    ),
    single(
        "http_server_validate_auth_bearer",
        "(token) -> boolean or AuthInfo",
        "The same for a bearer token.",
        Test("testing/e2e/tests/injection.rs::who_may_inject_is_for_policy_to_say"),
    ),
    multiple(
        "get_acl_definition",
        "(resource) -> ACL or nil",
        "Who may ask what of an HTTP listener: the rules of a resource such as `http_listener/*/api/admin`. What is answered holds for five \
         minutes (`kumo.aaa.set_acl_cache_ttl`); where nothing is, the built-in lists decide.",
        Test("testing/e2e/tests/acls.rs::rules_of_policy_decide_who_may_ask_what"),
    ),
    single(
        "http_message_generated",
        "(msg, auth_info)",
        "Each message of a request to `/api/inject/v1` or to `kumo.api.inject`: the place to set metadata and to sign. An error fails \
         its recipient, and no other.",
        Test("testing/e2e/tests/injection.rs::a_request_becomes_a_message_for_each_recipient"),
    ),
    multiple(
        "get_queue_config",
        "(domain, tenant, campaign, routing_domain) -> QueueConfig",
        "How messages of a scheduled queue are tried.",
        Test("crates/lua/tests/scripts/answers.rs::the_classic_routing_example"),
    ),
    single(
        "get_egress_pool",
        "(name) -> EgressPool",
        "The sources of a pool. Never asked for `unspecified`.",
        Test("testing/e2e/corpus/pool_weights.lua"),
    ),
    single(
        "get_egress_source",
        "(name) -> EgressSource",
        "One source. Never asked for `unspecified`.",
        Test("testing/e2e/corpus/source_address.lua"),
    ),
    single(
        "get_egress_path_config",
        "(routing_domain, egress_source, site_name) -> EgressPath",
        "What is allowed between a source and a site.",
        Test("testing/e2e/tests/production.rs::helpers_choose_tenant_campaign_queue_source_and_signature"),
    ),
    multiple(
        "throttle_insert_ready_queue",
        "(msg)",
        "A message is about to become ready; one whose due time is set ahead goes back.",
        Test(
            "testing/e2e/tests/throttles.rs::messages_go_back_before_the_ready_queue_uncounted_and_say_why_and_until_when",
        ),
    ),
    multiple(
        "requeue_message",
        "(msg, response, insert_context, increment_attempts, delay)",
        "An attempt failed, and the message is to wait. Metadata that name another queue move it there; a rejection bounces it.",
        Test("testing/e2e/tests/moving.rs::policy_moves_bounces_or_leaves_what_failed"),
    ),
    single(
        "rebind_message",
        "(msg, data)",
        "An operator moves a message and left the how to policy.",
        Test("testing/e2e/tests/moving.rs::an_operator_leaves_it_to_policy_how_mail_is_moved"),
    ),
    single(
        "xfer_message_received",
        "(msg, auth_info)",
        "Another node hands a message over.",
        Test("testing/e2e/tests/xfer.rs::an_order_sends_mail_to_another_node_which_delivers_it"),
    ),
    single(
        "smtp_client_rewrite_delivery_status",
        "(response, domain, tenant, campaign, routing_domain) -> status or nil",
        "A server refused a message or a recipient; the status that is returned takes the place of its own, and is said in the \
         log. `response` is the reply in one line; `routing_domain` is the domain where there is none.",
        Test("testing/e2e/tests/rewritten_status.rs::policy_decides_what_a_refusal_means"),
    ),
    multiple(
        "should_enqueue_log_record",
        "(msg, hook_name) -> boolean",
        "A record was logged, and is to become a message for a hook of `kumo.configure_log_hook`: `msg` has the record as its content \
         and in `log_record` of its metadata. `true` sends it on its way, usually once its metadata `queue` is set; `false` drops it, \
         and so does no answer. Records about such messages are not offered.",
        Test("testing/e2e/tests/log_hooks.rs::records_become_messages"),
    ),
    single(
        "spool_message_enumerated",
        "(msg)",
        "The program started, and a message of before is about to go back to its queue. Metadata, content and `set_due` count; \
         recipients stay. An error is logged, and the message goes back as it was.",
        Test("testing/e2e/tests/enumerated.rs::policy_sees_the_messages_of_earlier_runs"),
    ),
    single(
        "shutdown_logging",
        "()",
        "The program ends: all that was in hand is done, and loggers are about to be closed. An error is logged.",
        Test("testing/e2e/tests/log_hooks.rs::a_stop_loses_no_record"),
    ),
    single(
        "tsa_init",
        "()",
        "Once, at the start of `tsa-daemon`: its listener is set up here.",
        Test("testing/e2e/tests/tsa.rs::what_servers_answer_shapes_what_nodes_do"),
    ),
    single(
        "tsa_load_shaping_data",
        "() -> Shaping",
        "The rules `tsa-daemon` goes by: the result of `kumo.shaping.load`. It is asked at the start and every 30 s; an error is \
         logged, and what was loaded before stays.",
        Test("testing/e2e/tests/tsa.rs::what_servers_answer_shapes_what_nodes_do"),
    ),
    multiple(
        "deliver_by_missed",
        "(msg)",
        "A message ends because it was not delivered by its deadline. Ours; KumoMTA has no such event.",
        Test("testing/e2e/tests/scheduling.rs::a_missed_deadline_ends_a_message_over_a_kill_and_policy_hears_of_it"),
    ),
];

/// The event of that name, if it is raised.
pub fn find(name: &str) -> Option<&'static Event> {
    EVENTS.iter().find(|event| event.name == name)
}
