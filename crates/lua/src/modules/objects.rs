//! What handlers are given and the core functions return, described: messages, addresses, connections, throttles.

use crate::api::Proof::{Example, Test};
use crate::api::{Member, Proof, Type};

/// The types of `kumo` itself.
pub(crate) const TYPES: &[Type] = &[MESSAGE, ADDRESS, ADDRESS_HEADER, CONN_META, THROTTLE];

const fn member(name: &'static str, signature: &'static str, doc: &'static str, proof: Proof) -> Member {
    Member { name, signature, doc, proof }
}

const MESSAGE: Type = Type {
    name: "Message",
    prefix: "message",
    doc: "A message in the hands of a handler, or one of the script's own. One that is kept after its event gives errors only.",
    members: &[
        member(
            "message:id",
            "() -> string",
            "Its identity, 32 hex digits: that of log records and of the 250.",
            Example("assert(#msg:id() == 32 and msg:id():match('^%x+$'))"),
        ),
        member(
            "message:sender",
            "() -> EnvelopeAddress",
            "MAIL FROM; the null sender has an empty `email`.",
            Example("assert(msg:sender().email == 'sender@from.test')"),
        ),
        member(
            "message:set_sender",
            "(address)",
            "Changes MAIL FROM.",
            Example(
                "msg:set_sender('') assert(msg:sender().email == '') msg:set_sender('a@b.test') assert(msg:sender().user == 'a')",
            ),
        ),
        member(
            "message:recipient",
            "() -> EnvelopeAddress, list or nil",
            "The recipient; a list when there are several.",
            Example(
                "assert(msg:recipient().email == 'user@To.Test') msg:set_recipient { 'a@x.test', 'b@x.test' } assert(#msg:recipient() == 2)",
            ),
        ),
        member(
            "message:recipient_list",
            "() -> list",
            "The recipients, always a list.",
            Example("assert(msg:recipient_list()[1].domain == 'To.Test')"),
        ),
        member(
            "message:set_recipient",
            "(address or list)",
            "Replaces the recipients. An empty list is an error: mail to nobody would be lost.",
            Example(
                "msg:set_recipient('a@x.test') assert(msg:recipient().domain == 'x.test' and not pcall(msg.set_recipient, msg, {}))",
            ),
        ),
        member(
            "message:get_meta",
            "(name) -> value",
            "A value of the message's metadata; nil when there is none.",
            Example("msg:set_meta('x', { 1, a = nil }) assert(msg:get_meta('x')[1] == 1 and msg:get_meta('y') == nil)"),
        ),
        member(
            "message:set_meta",
            "(name, value)",
            "Sets a value: anything JSON can hold. `queue`, `tenant`, `campaign` and `routing_domain` choose the queue.",
            Example(
                "msg:set_meta('tenant', 't') assert(msg:queue_name() == 't@to.test' and not pcall(msg.set_meta, msg, 'f', print))",
            ),
        ),
        member(
            "message:queue_name",
            "() -> string",
            "The scheduled queue it belongs to: `campaign:tenant@domain!routing_domain`.",
            Example(
                "msg:set_meta('campaign', 'c') msg:set_meta('tenant', 't') assert(msg:queue_name() == 'c:t@to.test')",
            ),
        ),
        member(
            "message:num_attempts",
            "() -> integer",
            "How often its delivery was attempted.",
            Example("assert(msg:num_attempts() == 0)"),
        ),
        member(
            "message:increment_num_attempts",
            "()",
            "Counts one more attempt.",
            Example("msg:increment_num_attempts() assert(msg:num_attempts() == 1)"),
        ),
        member(
            "message:save",
            "()",
            "Nothing: what a handler does to a message is kept together once it returns.",
            Example("msg:set_meta('a', 1) msg:save() assert(msg:get_meta 'a' == 1)"),
        ),
        member(
            "message:shrink",
            "() -> boolean",
            "`false`: a message that a handler holds stays in memory until it returns.",
            Example("local was = msg:get_data() assert(msg:shrink() == false and msg:get_data() == was)"),
        ),
        member(
            "message:shrink_data",
            "() -> boolean",
            "As `shrink`.",
            Example("local was = msg:get_data() assert(msg:shrink_data() == false and msg:get_data() == was)"),
        ),
        member(
            "message:set_force_sync",
            "(boolean)",
            "Has the message synced to disk before it is answered, whatever `deferred_spool` of the listener says.",
            Test("crates/lua/tests/scripts/message.rs::a_script_may_insist_on_the_disk"),
        ),
        member(
            "message:set_due",
            "(RFC 3339 text or nil) -> text",
            "When it is tried; nil is now.",
            Example(
                "assert(msg:set_due('2040-01-01T00:00:00Z'):sub(1, 4) == '2040' and not pcall(msg.set_due, msg, 'soon'))",
            ),
        ),
        member(
            "message:set_scheduling",
            "(table or nil) -> table",
            "Constraints on when it is tried: `first_attempt`, `expires`, `deliver_by`, and `dow`, `tz`, `start`, `end`; nil clears them.",
            Example(
                "local s = msg:set_scheduling { dow = 'Mon', tz = 'UTC', start = '09:00:00', ['end'] = '10:00:00' } \
                 assert(s.tz == 'UTC' and not pcall(msg.set_scheduling, msg, { dow = 'Mon' }) and msg:set_scheduling(nil) == nil)",
            ),
        ),
        member(
            "message:import_scheduling_header",
            "(name, remove) -> table or nil",
            "The same constraints from a header field with JSON.",
            Example(
                "msg:append_header('X-S', '{\"expires\": \"2040-01-01T00:00:00Z\"}') \
                 assert(msg:import_scheduling_header('X-S', true).expires and msg:get_first_named_header_value('X-S') == nil) \
                 assert(msg:import_scheduling_header('X-S', true) == nil)",
            ),
        ),
        member(
            "message:get_data",
            "() -> string",
            "The whole content.",
            Example("assert(msg:get_data():find('\\r\\n\\r\\nbody\\r\\n', 1, true))"),
        ),
        member(
            "message:set_data",
            "(string)",
            "Replaces the whole content.",
            Example(
                "msg:set_data('Subject: new\\r\\n\\r\\nother\\r\\n') assert(msg:get_first_named_header_value('subject') == 'new')",
            ),
        ),
        member(
            "message:prepend_header",
            "(name, value, encode = false)",
            "A header field at the top; `encode` wraps it and writes what is not ASCII as RFC 2047 has it.",
            Example(
                "msg:prepend_header('X-A', '1') assert(msg:get_data():sub(1, 8) == 'X-A: 1\\r\\n' and not pcall(msg.prepend_header, msg, 'X A', '1'))",
            ),
        ),
        member(
            "message:append_header",
            "(name, value, encode = false)",
            "A header field at the end of the header.",
            Example(
                "msg:append_header('X-B', 'gr\\u{fc}n', true) assert(msg:get_data():find('X-B: =?', 1, true) and msg:get_first_named_header_value('X-B') == 'gr\\u{fc}n')",
            ),
        ),
        member(
            "message:get_first_named_header_value",
            "(name) -> string or nil",
            "The value of the first field of that name, decoded.",
            Example(
                "assert(msg:get_first_named_header_value('subject') == 'gr\\u{fc}n' and msg:get_first_named_header_value('none') == nil)",
            ),
        ),
        member(
            "message:get_all_named_header_values",
            "(name) -> list",
            "The values of all fields of that name.",
            Example("local v = msg:get_all_named_header_values('X-Tenant') assert(#v == 2 and v[2] == 't2')"),
        ),
        member(
            "message:get_all_headers",
            "() -> list of {name, value}",
            "Every field, in order.",
            Example("local h = msg:get_all_headers() assert(h[1][1] == 'From' and #h == 6)"),
        ),
        member(
            "message:get_address_header",
            "(name) -> AddressHeader or nil",
            "The first field of that name, as addresses.",
            Example("assert(#msg:get_address_header('to').list == 2 and msg:get_address_header('cc') == nil)"),
        ),
        member(
            "message:from_header",
            "() -> AddressHeader or nil",
            "The From field, as addresses.",
            Example("assert(msg:from_header().domain == 'from.test')"),
        ),
        member(
            "message:to_header",
            "() -> AddressHeader or nil",
            "The To field, as addresses.",
            Example("assert(msg:to_header().list[2].name == 'B')"),
        ),
        member(
            "message:remove_all_named_headers",
            "(name)",
            "Removes every field of that name.",
            Example(
                "msg:remove_all_named_headers('x-tenant') assert(#msg:get_all_named_header_values('X-Tenant') == 0)",
            ),
        ),
        member(
            "message:remove_x_headers",
            "(names or nil)",
            "Removes the fields with these names, or all whose names begin with `X-`.",
            Example(
                "msg:remove_x_headers { 'x-campaign' } assert(msg:get_first_named_header_value('X-Tenant')) msg:remove_x_headers() assert(not msg:get_data():lower():find('x%-'))",
            ),
        ),
        member(
            "message:import_x_headers",
            "(names or nil)",
            "Copies the values of these fields, or of all whose names begin with `X-`, into the metadata: `X-Tenant` as `x_tenant`.",
            Example("msg:import_x_headers() assert(msg:get_meta('x_campaign') == 'c1')"),
        ),
        member(
            "message:import_headers",
            "(list of {name, match = 'last', transform = 'snake_case', target = nil, remove = false})",
            "Copies fields into the metadata as rules say. A name may end in `*`; the first rule that fits counts for each field.",
            Example(
                "msg:import_headers { { name = 'X-Tenant', match = 'all', target = 'tenants' }, { name = 'X-*', transform = 'camel_case', remove = true } } \
                 assert(#msg:get_meta('tenants') == 2 and msg:get_meta('xCampaign') == 'c1' and not msg:get_data():find('X-Campaign', 1, true))",
            ),
        ),
        member(
            "message:add_authentication_results",
            "(server, list of results)",
            "Prepends `Authentication-Results` (RFC 8601). A result is a table of `method`, `result`, and where there are any `reason`, \
             `props` and `method_version`.",
            Example(
                "msg:add_authentication_results('mx.test', { { method = 'spf', result = 'pass', reason = 'it does', \
                 props = { ['smtp.mailfrom'] = 'a.test' } }, { method = 'dkim', method_version = 1, result = 'none' } }) \
                 local f = msg:parse_mime().headers:get_first_named('authentication-results').value \
                 assert(f.serv_id == 'mx.test' and f.results[1].props['smtp.mailfrom'] == 'a.test' and f.results[1].reason == 'it does') \
                 assert(f.results[2].result == 'none' and msg:get_data():find '^Authentication%-Results: mx.test') \
                 assert(not pcall(msg.add_authentication_results, msg, 'mx.test', { { method = 'spf' } }))",
            ),
        ),
        member(
            "message:dkim_verify",
            "(resolver or nil) -> list of results",
            "Verifies up to 10 DKIM signatures from the top (RFC 6376); of an unsigned message one result `none`.",
            Test("crates/lua/tests/scripts/checks.rs::signatures_are_verified_by_the_keys_of_dns"),
        ),
        member(
            "message:arc_verify",
            "(resolver or nil) -> result",
            "Checks the ARC chain (RFC 8617): `none`, `pass`, or `fail` and the first reason.",
            Test("crates/lua/tests/scripts/checks.rs::chains_are_checked_and_continued"),
        ),
        member(
            "message:arc_seal",
            "(signer, server, list of results, resolver or nil)",
            "Continues the chain with one more set; a message whose chain is broken stays as it is.",
            Test("crates/lua/tests/scripts/checks.rs::chains_are_checked_and_continued"),
        ),
        member(
            "message:parse_mime",
            "() -> MimePart",
            "A copy of the message as a tree of parts. Changes are given back with `msg:set_data(tostring(part))`.",
            Example(
                "local p = msg:parse_mime() assert(p.body == 'body\\r\\n' and tostring(p) == msg:get_data()) p.headers:set_subject 'new' \
                 msg:set_data(tostring(p)) assert(msg:get_first_named_header_value 'subject' == 'new')",
            ),
        ),
        member(
            "message:append_text_plain",
            "(text)",
            "Puts text at the end of the plain text, if the message has one.",
            Example(
                "msg:append_text_plain 'more gr\\u{fc}n\\r\\n' assert(msg:parse_mime().body:find('^body\\r\\nmore gr\\u{fc}n'))",
            ),
        ),
        member(
            "message:append_text_html",
            "(text)",
            "Puts text before the last `</body>` of the HTML text, or at its end, if the message has one.",
            Example(
                "msg:set_data('Content-Type: text/html\\r\\n\\r\\n<BODY>a</BODY>\\r\\n') msg:append_text_html '<p>b</p>' \
                 assert(msg:parse_mime().body:find('<BODY>a<p>b</p></BODY>', 1, true))",
            ),
        ),
        member(
            "message:check_fix_conformance",
            "(checks, fixes, settings or nil) -> string or nil",
            "What of `checks` the message has, as a text that begins `Message has conformance issues:`; else what of `fixes` it has is \
             mended, and nil. Both are names joined by `|`: `MISSING_COLON_VALUE`, `NON_CANONICAL_LINE_ENDINGS`, \
             `NAME_ENDS_WITH_SPACE`, `LINE_TOO_LONG`, `NEEDS_TRANSFER_ENCODING`, `MISSING_DATE_HEADER`, \
             `MISSING_MESSAGE_ID_HEADER`, `MISSING_MIME_VERSION`, and two that are found and not mended: `MIME_NESTING_LIMIT_EXCEEDED`, `MIME_INVALID_BOUNDARY`. Settings: `detect_encoding`, `include_encodings`, \
             `exclude_encodings`, `message_id`.",
            Example(
                "local why = msg:check_fix_conformance('MISSING_DATE_HEADER|LINE_TOO_LONG', '') \
                 assert(why == 'Message has conformance issues: MISSING_DATE_HEADER', why) \
                 assert(msg:check_fix_conformance('', 'MISSING_DATE_HEADER|MISSING_MESSAGE_ID_HEADER', { message_id = '<a@b.test>' }) == nil) \
                 assert(msg:get_first_named_header_value 'date' and msg:get_first_named_header_value 'message-id' == '<a@b.test>') \
                 msg:set_data('Subject: x\\n\\ngr\\u{fc}n\\n') \
                 assert(msg:check_fix_conformance('', 'NON_CANONICAL_LINE_ENDINGS|NEEDS_TRANSFER_ENCODING') == nil) \
                 assert(not msg:get_data():find '[\\x80-\\xff]' and msg:get_data():find '\\r\\n') \
                 assert(not pcall(msg.check_fix_conformance, msg, 'NO_SUCH', ''))",
            ),
        ),
        member(
            "message:dkim_sign",
            "(Signer)",
            "Signs the message as it is: the last thing to be done to it.",
            Test("testing/e2e/tests/dkim.rs::rsa"),
        ),
        member(
            "message:parse_rfc3464",
            "() -> table or nil",
            "What a delivery report says; nil when the message is none, an error when it claims to be one and does not read.",
            Test("crates/lua/tests/scripts/message.rs::reports_are_tables"),
        ),
        member(
            "message:parse_rfc5965",
            "() -> table or nil",
            "What a feedback report says.",
            Test("crates/lua/tests/scripts/message.rs::reports_are_tables"),
        ),
    ],
};

const ADDRESS: Type = Type {
    name: "EnvelopeAddress",
    prefix: "address",
    doc: "An address of the envelope. `tostring` gives `email`.",
    members: &[
        member(
            "address.user",
            "string",
            "The local part, without quotes.",
            Example("msg:set_sender('\"a b\"@x.test') assert(msg:sender().user == 'a b')"),
        ),
        member("address.domain", "string", "The domain.", Example("assert(msg:sender().domain == 'from.test')")),
        member(
            "address.email",
            "string",
            "All of it; empty for the null sender.",
            Example("assert(msg:sender().email == tostring(msg:sender()))"),
        ),
    ],
};

const ADDRESS_HEADER: Type = Type {
    name: "AddressHeader",
    prefix: "addressheader",
    doc: "The addresses of a header field. All but `list` are errors unless it is exactly one mailbox. `tostring` gives JSON.",
    members: &[
        member("addressheader.user", "string", "The local part.", Example("assert(msg:from_header().user == 'one')")),
        member(
            "addressheader.domain",
            "string",
            "The domain.",
            Example(
                "assert(msg:from_header().domain == 'from.test' and not pcall(function() return msg:to_header().domain end))",
            ),
        ),
        member(
            "addressheader.email",
            "string",
            "The address.",
            Example("assert(msg:from_header().email == 'one@from.test')"),
        ),
        member(
            "addressheader.name",
            "string or nil",
            "The name beside the address.",
            Example("assert(msg:from_header().name == 'Some One')"),
        ),
        member(
            "addressheader.list",
            "list",
            "Every mailbox, with `user`, `domain`, `email` and `name`.",
            Example(
                "local l = msg:to_header().list assert(l[1].email == 'a@x.test' and l[1].name == nil and l[2].domain == 'y.test')",
            ),
        ),
    ],
};

const CONN_META: Type = Type {
    name: "ConnMeta",
    prefix: "conn_meta",
    doc: "The metadata of a connection, which its events share. Each message gets a copy when it comes in.",
    members: &[
        member(
            "conn_meta:get_meta",
            "(name) -> value",
            "A value; nil when there is none.",
            Example("assert(conn_meta:get_meta('x') == nil)"),
        ),
        member(
            "conn_meta:auth_info",
            "() -> AuthInfo",
            "Who the client is, as far as it is known: its address, and what AUTH proved.",
            Example("assert(#conn_meta:auth_info().identities == 0)"),
        ),
        member(
            "conn_meta:set_meta",
            "(name, value)",
            "Sets a value: anything JSON can hold.",
            Example("conn_meta:set_meta('x', { a = 1 }) assert(conn_meta:get_meta('x').a == 1)"),
        ),
    ],
};

const THROTTLE: Type = Type {
    name: "Throttle",
    prefix: "throttle",
    doc: "What `kumo.make_throttle` returns.",
    members: &[
        member(
            "throttle:throttle",
            "() -> {throttled, limit, remaining, reset_after, retry_after}",
            "One hit; times are tables with `secs` and `nanos`.",
            Example(
                "local t = kumo.make_throttle('doc-hit', '1/hour') assert(not t:throttle().throttled) local r = t:throttle() assert(r.throttled and r.retry_after.secs > 3000)",
            ),
        ),
        member(
            "throttle:delay_message_if_throttled",
            "(msg) -> boolean",
            "One hit; true when it was refused, and the message is due only when it would be admitted.",
            Example(
                "local t = kumo.make_throttle('doc-delay', '1/hour') assert(not t:delay_message_if_throttled(msg) and t:delay_message_if_throttled(msg))",
            ),
        ),
        member(
            "throttle:sleep_if_throttled",
            "() -> boolean",
            "Waits until a hit is admitted; true when that took any time.",
            Example(
                "local t = kumo.make_throttle('doc-sleep', '100/s,max_burst=1') assert(not t:sleep_if_throttled() and t:sleep_if_throttled())",
            ),
        ),
        member(
            "throttle:explain",
            "() -> string",
            "The rate in words.",
            Example("assert(kumo.make_throttle('doc-explain', '100/min'):explain():find('100 in 60s', 1, true))"),
        ),
    ],
};
