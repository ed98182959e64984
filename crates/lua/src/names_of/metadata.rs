//! Metadata that mean something to the program.
//!
//! Facts: `queue` makes names of queues of them, `engine` sets what it knows of a connection, a request or a record.

use crate::names_of::{Group, Name, Shape, own, own_unshown, shown};
use crate::value_names::Page;

/// The page.
pub(crate) const METADATA: Page = Page {
    name: "metadata",
    title: "Metadata",
    doc: "Values by name that a message has beside its content: `msg:get_meta` reads and `msg:set_meta` writes \
          them, and they stay until the message is gone. A message begins with a copy of those of its connection; \
          loggers write what their `meta` names.",
    groups: &[
        Group {
            title: "Where it goes",
            doc: "The queue is called `CAMPAIGN:TENANT@DOMAIN!ROUTING_DOMAIN`, without the parts that are not set. \
                  Anything but a text is an error when the name is made.",
            example: None,
            shape: Shape::Keys,
            names: WHERE_TO,
        },
        Group {
            title: "Where it came from",
            doc: "Set by the program when the message, or its connection, comes in.",
            example: None,
            shape: Shape::Keys,
            names: WHERE_FROM,
        },
        Group {
            title: "Everything else",
            doc: "Of the program's own values, and of the policy's.",
            example: None,
            shape: Shape::Keys,
            names: OTHERS,
        },
    ],
};

const WHERE_TO: &[Name] = &[
    shown(
        "meta.queue",
        "string",
        "The whole name of the message's queue, whatever the others say. `null` drops the message when it comes in.",
        KNOWS,
    ),
    shown("meta.tenant", "string", "The tenant, a part of the queue's name.", KNOWS),
    shown("meta.campaign", "string", "The campaign, a part of the queue's name.", KNOWS),
    shown(
        "meta.routing_domain",
        "string",
        "Where the mail is routed instead of the recipient's domain: another domain, also with `:PORT` behind it, \
         or an address in brackets. It is a part of the queue's name.",
        KNOWS,
    ),
];

const WHERE_FROM: &[Name] = &[
    shown(
        "meta.reception_protocol",
        "string",
        "How it came: `ESMTP`, `HTTP` (the injection API), `LogRecord` (a log hook), or `Report` (a report to \
         another domain, which is ours).",
        KNOWS,
    ),
    shown(
        "meta.received_from",
        "string",
        "The client's address and port; of HTTP the address alone. Behind a proxy it is the client that the proxy \
         names.",
        KNOWS,
    ),
    shown(
        "meta.received_via",
        "string",
        "The address and port the client connected to; of HTTP the address alone.",
        KNOWS,
    ),
    shown(
        "meta.orig_received_from",
        "string",
        "Where a proxy named the client by the PROXY protocol or XCLIENT: the address and port of that proxy.",
        PROXY,
    ),
    shown(
        "meta.orig_received_via",
        "string",
        "In the same case: our own address and port, to which the proxy connected.",
        PROXY,
    ),
    shown("meta.hostname", "string", "What the listener calls itself.", KNOWS),
    shown("meta.ehlo_domain", "string", "What the client said behind EHLO or HELO, once that was let pass.", KNOWS),
    shown("meta.authn_id", "string", "Who logged in by SMTP AUTH.", KNOWS),
    shown("meta.authz_id", "string", "As whom they act since: this is what helpers look at.", KNOWS),
    shown("meta.tls_cipher", "string", "The cipher suite, under TLS.", KNOWS),
    shown("meta.tls_protocol_version", "string", "The version of TLS, such as `TLSv1_3`.", KNOWS),
    shown(
        "meta.tls_peer_subject_name",
        "list<string>",
        "The subject of the client's certificate, where the client showed one that the listener believes \
         (`tls_required_client_ca`).",
        SUBJECT,
    ),
    shown("meta.http_auth", "string", "Of HTTP: the name that the client proved, else its address.", REQUEST),
    shown("meta.extra", "table", "`metadata` of this recipient in the request that injected the message.", REQUEST),
    shown(
        "meta.auth_info",
        "AuthInfo",
        "Who sent a request with `deferred_generation`: on the message in which the request waits.",
        LATER,
    ),
    shown("meta.log_record", "table", "The record, on a message that a log hook made of one.", RECORD),
    shown("meta.xfer_from", "string", "Address and port of the node that handed the message over.", XFER),
    own_unshown("meta.xfer_via", "string", "Address and port of ours to which that node connected."),
    own("meta.xfer_auth", "string", "Who that node has proven to be, else its address.", XFER),
];

const OTHERS: &[Name] = &[
    shown(
        "meta.xfer_queue_info",
        "table",
        "What steered the queue of a message that is on its way to another node: it is given back there, or when \
         the transfer is taken back.",
        "crates/queue/src/xfer.rs::what_is_sent_off_comes_back_as_it_was",
    ),
    own(
        "meta.compliance",
        "string",
        "The names of the rules that the message breaks, as `kumo.compliance.check` found them. Ours.",
        BROKEN,
    ),
    own_unshown(
        "meta.postrider:scheduling",
        "table",
        "What `msg:set_scheduling` was given. It is changed by that function.",
    ),
    shown(
        "meta.x_*",
        "any",
        "Names that begin with `x_` are the policy's own: the program gives them no meaning.",
        KNOWS,
    ),
];

const KNOWS: &str = "testing/e2e/tests/metadata.rs::a_message_knows_where_it_came_from_and_where_it_goes";
const PROXY: &str = "testing/e2e/tests/metadata.rs::behind_a_proxy_it_is_the_client_that_counts";
const SUBJECT: &str = "testing/e2e/tests/listeners.rs::a_client_certificate_is_believed_when_its_authority_is_known";
const REQUEST: &str = "testing/e2e/tests/injection.rs::a_request_becomes_a_message_for_each_recipient";
const LATER: &str = "testing/e2e/tests/injection.rs::what_is_generated_later_says_who_has_no_message";
const RECORD: &str = "testing/e2e/tests/log_hooks.rs::records_become_messages";
const XFER: &str = "testing/e2e/tests/xfer.rs::an_order_sends_mail_to_another_node_which_delivers_it";
const BROKEN: &str = "crates/lua/tests/scripts/compliance.rs::a_message_that_breaks_rules_is_told_so";
