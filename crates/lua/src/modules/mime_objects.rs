//! What `kumo.mimepart` returns, described: parts, builders, headers.

use crate::api::Proof::Example;
use crate::api::{Member, Proof, Type};

/// The types.
pub(crate) const TYPES: &[Type] = &[PART, BUILDER, HEADER_MAP, HEADER];

const fn member(name: &'static str, signature: &'static str, doc: &'static str, proof: Proof) -> Member {
    Member { name, signature, doc, proof }
}

const PART: Type = Type {
    name: "MimePart",
    prefix: "mimepart",
    doc: "A part of a message, and its children. Handles into one tree share it. `tostring(part)` is the part as it is sent; one that \
          nobody changed is octet for octet what was parsed. Messages are changed by `msg:set_data(tostring(part))`.",
    members: &[
        member(
            "mimepart.body",
            "string",
            "The content without its transfer encoding; of texts in UTF-8. Writing encodes it anew and keeps the `Content-Type`.",
            Example(
                "local p = kumo.mimepart.parse('Content-Type: text/plain; charset=iso-8859-1\\r\\nContent-Transfer-Encoding: quoted-printable\\r\\n\\r\\nf=FCr') \
                 assert(p.body == 'f\\u{fc}r') p.body = 'gr\\u{fc}n' assert(p.body:find '^gr\\u{fc}n' and p.headers:content_type().value == 'text/plain') \
                 assert(kumo.mimepart.parse(tostring(p)).body:find 'gr\\u{fc}n')",
            ),
        ),
        member(
            "mimepart.headers",
            "HeaderMap",
            "Its header, to read and to change.",
            Example(
                "local p = kumo.mimepart.parse('Subject: x\\r\\n\\r\\nbody') assert(p.headers:subject() == 'x') p.headers:set_subject 'y' \
                 assert(tostring(p) == 'Subject: y\\r\\n\\r\\nbody')",
            ),
        ),
        member(
            "mimepart.id",
            "string",
            "Its place in the tree: empty for the whole, `0.1` for the second child of the first.",
            Example(
                "local k = kumo.mimepart local p = k.new_multipart('multipart/mixed', { k.new_text_plain 'a', k.new_binary('x/y', 'b') }) \
                 assert(p.id == '' and p:get_simple_structure().attachments[1].part.id == '1')",
            ),
        ),
        member(
            "mimepart:get_simple_structure",
            "() -> table",
            "What people see of a message: `text_part`, `html_part`, `amp_html_part`, `header_part`, and `attachments`, a list of \
             tables with `file_name`, `inline`, `content_id`, `content_type` and `part`.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'plain' b:text_html '<b>html</b>' \
                 b:attach('image/png', '\\x89PNG', { file_name = 'a.png', inline = true, content_id = 'a@x' }) \
                 local s = b:build():get_simple_structure() \
                 assert(s.text_part.body:find 'plain' and s.html_part.body:find 'html' and s.amp_html_part == nil and s.header_part) \
                 local a = s.attachments[1] assert(#s.attachments == 1 and a.file_name == 'a.png' and a.inline and a.content_id == 'a@x') \
                 assert(a.content_type == 'image/png' and a.part.body == '\\x89PNG')",
            ),
        ),
        member(
            "mimepart:replace_body",
            "(content, content type or nil)",
            "Another content, and another type where one is given.",
            Example(
                "local p = kumo.mimepart.new_text_plain 'a' p:replace_body('<i>b</i>', 'text/html') \
                 assert(p.body:find '<i>b</i>' and p.headers:content_type().value == 'text/html') \
                 assert(not pcall(p.replace_body, p, 'x', 'no type'))",
            ),
        ),
        member(
            "mimepart:append_part",
            "(MimePart)",
            "Adds a copy of a part as the last child.",
            Example(
                "local k = kumo.mimepart local p = k.new_multipart('multipart/mixed', { k.new_text_plain 'a' }) \
                 p:append_part(k.new_binary('x/y', 'b')) assert(#p:get_simple_structure().attachments == 1)",
            ),
        ),
        member(
            "mimepart:rebuild",
            "() -> MimePart",
            "The same built anew so that it conforms: CRLF, short lines, transfer encodings, encoded headers.",
            Example(
                "local p = kumo.mimepart.parse('Subject: gr\\u{fc}n\\nX: y\\n\\nbody \\u{fc}\\n'):rebuild() local text = tostring(p) \
                 assert(not text:find '[\\x80-\\xff]' and not text:gsub('\\r\\n', ''):find '\\n' and p.headers:subject() == 'gr\\u{fc}n')",
            ),
        ),
    ],
};

const BUILDER: Type = Type {
    name: "MimeBuilder",
    prefix: "builder",
    doc: "What `kumo.mimepart.builder` returns.",
    members: &[
        member(
            "builder:text_plain",
            "(text)",
            "The plain text.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'gr\\u{fc}n' assert(b:build():get_simple_structure().text_part.body:find 'gr\\u{fc}n')",
            ),
        ),
        member(
            "builder:text_html",
            "(text)",
            "The HTML text.",
            Example(
                "local b = kumo.mimepart.builder() b:text_html '<b>x</b>' assert(b:build():get_simple_structure().html_part.body:find '<b>x</b>')",
            ),
        ),
        member(
            "builder:text_amp_html",
            "(text)",
            "The AMP text.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'x' b:text_amp_html '<html amp>' \
                 assert(b:build():get_simple_structure().amp_html_part.body:find 'amp')",
            ),
        ),
        member(
            "builder:attach",
            "(content type, octets, {file_name, inline, content_id} or nil)",
            "An attachment.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'x' b:attach('x/y', '\\0\\xff', { file_name = 'a b.bin' }) \
                 local a = b:build():get_simple_structure().attachments[1] \
                 assert(a.file_name == 'a b.bin' and not a.inline and a.part.body == '\\0\\xff') \
                 assert(not pcall(b.attach, kumo.mimepart.builder(), 'x/y', '', { filename = 'x' }))",
            ),
        ),
        member(
            "builder:attach_part",
            "(MimePart)",
            "A part made elsewhere as an attachment.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'x' b:attach_part(kumo.mimepart.new_binary('x/y', 'z', { file_name = 'q' })) \
                 assert(b:build():get_simple_structure().attachments[1].file_name == 'q')",
            ),
        ),
        member(
            "builder:set_stable_content",
            "(boolean)",
            "The same boundaries and date each time, for tests.",
            Example(
                "local function build() local b = kumo.mimepart.builder() b:set_stable_content(true) b:text_plain 'a' b:text_html 'b' \
                 return tostring(b:build()) end assert(build() == build())",
            ),
        ),
        member(
            "builder:build",
            "() -> MimePart",
            "What was given, as a message with `Date` and `MIME-Version`; once.",
            Example(
                "local b = kumo.mimepart.builder() b:text_plain 'x' local p = b:build() \
                 assert(p.headers:mime_version() == '1.0' and p.headers:get_first_named 'date') assert(not pcall(b.build, b))",
            ),
        ),
    ],
};

/// The getter of a header and its setter: what is written, a check of `v`, a table that fits, a check of that, and a text that
/// does not fit.
macro_rules! accessors {
    (@get $accessor:literal $header:literal $kind:literal $text:literal $check:literal) => {
        member(
            concat!("headers:", $accessor),
            concat!("() -> ", $kind, " or nil"),
            concat!("The value of `", $header, "`."),
            Example(concat!(
                "local h = kumo.mimepart.parse('", $header, ": ", $text, "\\r\\n\\r\\n').headers local v = h:", $accessor, "() assert(",
                $check, ")"
            )),
        )
    };
    (@set $accessor:literal $header:literal $kind:literal $text:literal $check:literal $table:literal $then:literal $bad:literal) => {
        member(
            concat!("headers:set_", $accessor),
            concat!("(", $kind, " or string)"),
            concat!("Writes `", $header, "` anew. A string is parsed; what does not fit is an error."),
            Example(concat!(
                "local h = kumo.mimepart.parse('A: b\\r\\n\\r\\n').headers assert(h:", $accessor, "() == nil) h:set_", $accessor, "(",
                $table, ") local v = h:", $accessor, "() assert(", $then, ") h:set_", $accessor, " '", $text, "' v = h:", $accessor,
                "() assert(", $check, ") assert(not pcall(h.set_", $accessor, ", h, ", $bad, "))"
            )),
        )
    };
    ($($accessor:literal $header:literal: $kind:literal, $text:literal, $check:literal, $table:literal, $then:literal, $bad:literal;)*) => {
        &[
            FIXED[0], FIXED[1], FIXED[2], FIXED[3], FIXED[4],
            $(
                accessors!(@get $accessor $header $kind $text $check),
                accessors!(@set $accessor $header $kind $text $check $table $then $bad),
            )*
        ]
    };
}

/// Rows of headers that hold the same kind of value.
macro_rules! header_members {
    ($([$($mailboxes:literal $m:literal),*] [$($addresses:literal $a:literal),*] [$($mailbox:literal $o:literal),*] [$($text:literal $t:literal),*])*) => {
        $(accessors! {
            $($mailboxes $m: "MailboxList", "Ann <a@x.test>, b@x.test",
                "v[1].name == 'Ann' and v[1].address.local_part == 'a' and v[2].address.domain == 'x.test'",
                "{ { name = 'Cy', address = { local_part = 'c', domain = 'y.test' } } }", "v[1].name == 'Cy' and #v == 1",
                "'nobody at all'";)*
            $($addresses $a: "AddressList", "a@x.test, friends: b@x.test;",
                "v[1].address.local_part == 'a' and v[2].name == 'friends' and v[2].entries[1].address.local_part == 'b'",
                "{ { address = { local_part = 'c', domain = 'y.test' } } }", "v[1].address.local_part == 'c' and #v == 1",
                "{ wrong = 1 }";)*
            $($mailbox $o: "Mailbox", "Ann <a@x.test>", "v.name == 'Ann' and v.address.domain == 'x.test'",
                "{ address = { local_part = 'c', domain = 'y.test' } }", "v.address.local_part == 'c' and v.name == nil",
                "'a@x.test, b@x.test'";)*
            $($text $t: "string", "one two", "v == 'one two'", "'gr\\u{fc}n'", "v == 'gr\\u{fc}n'", "{ 1 }";)*
            "mime_version" "MIME-Version": "string", "1.0", "v == '1.0'", "'1.1'", "v == '1.1'", "{ 1 }";
            "message_id" "Message-ID": "string", "<a@x.test>", "v == 'a@x.test'", "'<b@x.test>'", "v == 'b@x.test'", "'a b c'";
            "content_id" "Content-ID": "string", "<a@x.test>", "v == 'a@x.test'", "'<b@x.test>'", "v == 'b@x.test'", "'a b c'";
            "references" "References": "list of strings", "<a@x> <b@x>", "#v == 2 and v[2] == 'b@x'", "{ 'c@x', 'd@x' }",
                "v[2] == 'd@x'", "{ wrong = 1 }";
            "content_transfer_encoding" "Content-Transfer-Encoding": "MimeParams", "base64", "v.value == 'base64'",
                "{ value = '7bit', parameters = {} }", "v.value == '7bit'", "{ wrong = 1 }";
            "content_disposition" "Content-Disposition": "MimeParams", "attachment; filename=a.txt",
                "v.value == 'attachment' and v.parameters.filename == 'a.txt'",
                "{ value = 'inline', parameters = { filename = 'b c' } }", "v.parameters.filename == 'b c'", "{ wrong = 1 }";
            "content_type" "Content-Type": "MimeParams", "text/plain; charset=utf-8",
                "v.value == 'text/plain' and v.parameters.charset == 'utf-8'",
                "{ value = 'x/y', parameters = { a = 'b c' } }", "v.parameters.a == 'b c'", "{ wrong = 1 }";
        })*
    };
}

const HEADER_MAP: Type = Type {
    name: "HeaderMap",
    prefix: "headers",
    doc: "The header of a part; what is changed here is changed there. `tostring(headers)` is the header as it is sent. A Mailbox is \
          `{name, address = {local_part, domain}}`, a group `{name, entries}`, an AddressList a list of both, MimeParams are \
          `{value, parameters}`.",
    members: header_members! {
        ["from" "From", "resent_from" "Resent-From"]
        ["to" "To", "reply_to" "Reply-To", "cc" "Cc", "bcc" "Bcc", "resent_to" "Resent-To", "resent_cc" "Resent-Cc", "resent_bcc" "Resent-Bcc"]
        ["sender" "Sender", "resent_sender" "Resent-Sender"]
        ["subject" "Subject", "comments" "Comments"]
    },
};

const FIXED: [Member; 5] = [
    member(
        "headers:append",
        "(name, value)",
        "Adds a field at the end, encoded and folded.",
        Example(
            "local h = kumo.mimepart.parse('A: b\\r\\n\\r\\n').headers h:append('X-U', 'gr\\u{fc}n') \
             assert(tostring(h):find('A: b\\r\\nX-U: =?', 1, true) and h:get_first_named('x-u').value == 'gr\\u{fc}n')",
        ),
    ),
    member(
        "headers:prepend",
        "(name, value)",
        "Adds a field at the beginning, encoded and folded.",
        Example(
            "local h = kumo.mimepart.parse('A: b\\r\\n\\r\\n').headers h:prepend('X-P', '1') assert(tostring(h):find '^X%-P: 1\\r\\nA: b') \
             assert(not pcall(h.prepend, h, 'X P', '1'))",
        ),
    ),
    member(
        "headers:remove_all_named",
        "(name)",
        "Removes every field of that name, in any case of letters.",
        Example(
            "local h = kumo.mimepart.parse('A: b\\r\\nC: d\\r\\na: e\\r\\n\\r\\n').headers h:remove_all_named 'A' assert(tostring(h):find '^C: d')",
        ),
    ),
    member(
        "headers:get_first_named",
        "(name) -> Header or nil",
        "A copy of the first field of that name.",
        Example(
            "local h = kumo.mimepart.parse('A: b\\r\\na: c\\r\\n\\r\\n').headers assert(h:get_first_named('a').value == 'b' and h:get_first_named 'z' == nil)",
        ),
    ),
    member(
        "headers:iter",
        "(name or nil) -> iterator of Header",
        "Goes through copies of all fields, or of those of that name, in their order.",
        Example(
            "local h, seen = kumo.mimepart.parse('A: b\\r\\nC: d\\r\\na: e\\r\\n\\r\\n').headers, '' \
             for field in h:iter() do seen = seen .. field.name end for field in h:iter 'a' do seen = seen .. field.value end assert(seen == 'ACabe')",
        ),
    ),
];

/// A field of a Header: what is parsed, and a check of the Header `f`.
macro_rules! field {
    ($name:literal, $kind:literal, $doc:literal, $text:literal, $check:literal) => {
        member(
            concat!("header.", $name),
            $kind,
            $doc,
            Example(concat!(
                "local f = kumo.mimepart.parse('",
                $text,
                "\\r\\n\\r\\n').headers:iter()() assert(",
                $check,
                ")"
            )),
        )
    };
}

const HEADER: Type = Type {
    name: "Header",
    prefix: "header",
    doc: "A copy of a header field. A field that cannot be read as asked for is an error.",
    members: &[
        field!("name", "string", "Its name.", "Subject: x", "f.name == 'Subject'"),
        field!(
            "value",
            "by its name",
            "Its value, as the type that its name has.",
            "To: a@x.test",
            "f.value[1].address.domain == 'x.test'"
        ),
        field!(
            "raw_value",
            "string",
            "Its value as written.",
            "Subject: =?utf-8?q?=C3=BC?=",
            "f.raw_value == '=?utf-8?q?=C3=BC?='"
        ),
        field!(
            "unstructured",
            "string",
            "Its value as text, encoded words decoded (RFC 2047).",
            "To: =?utf-8?q?=C3=BC?= <a@x>",
            "f.unstructured == '\\u{fc} <a@x>'"
        ),
        field!("address_list", "AddressList", "Its value read so.", "X: a@x.test, b@x.test", "#f.address_list == 2"),
        field!(
            "mailbox_list",
            "MailboxList",
            "Its value read so.",
            "X: a@x.test, b@x.test",
            "#f.mailbox_list == 2 and not pcall(function() return f.message_id end)"
        ),
        field!("message_id", "string", "Its value read so.", "X: <a@x.test>", "f.message_id == 'a@x.test'"),
        field!(
            "message_id_list",
            "list of strings",
            "Its value read so.",
            "X: <a@x> <b@x>",
            "f.message_id_list[2] == 'b@x'"
        ),
        field!(
            "mime_params",
            "MimeParams",
            "Its value read so.",
            "X: a/b; c=d",
            "f.mime_params.value == 'a/b' and f.mime_params.parameters.c == 'd'"
        ),
        field!(
            "authentication_results",
            "table",
            "Its value read so (RFC 8601).",
            "Authentication-Results: mx.test; spf=pass smtp.mailfrom=a.test",
            "f.authentication_results.serv_id == 'mx.test' and f.value.results[1].method == 'spf' and f.value.results[1].result == 'pass' and f.value.results[1].props['smtp.mailfrom'] == 'a.test'"
        ),
    ],
};
