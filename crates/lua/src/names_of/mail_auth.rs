//! `policy-extras.mail_auth`: its functions and the options of the first.
//!
//! Facts: share/policy-extras/mail_auth.lua.

use crate::helper_names::Helper;
use crate::names_of::{Group, Name, Shape, own, own_unshown, shown};

/// The helper.
pub(crate) const MAIL_AUTH: Helper = Helper {
    name: "policy-extras.mail_auth",
    doc: "What a received message proves about where it is from: `local mail_auth = require \
          'policy-extras.mail_auth'`. Nothing is refused here, that is up to the policy; results are as in \
          [authentication.md](../authentication.md#results).",
    functions: FUNCTIONS,
    groups: &[Group {
        title: "Options of check",
        doc: "What `mail_auth.check` takes.",
        example: None,
        shape: Shape::Keys,
        names: OPTIONS,
    }],
};

const FUNCTIONS: &[Name] = &[
    shown(
        "mail_auth.check",
        "(msg, options or nil) -> table",
        "Checks DKIM, SPF, iprev, SMTP AUTH, DMARC and ARC, in this order, and adds `Authentication-Results`. It \
         returns results by the names of the checks (`dkim` is a list, `spf` and `dmarc` are `{ disposition, result \
         }`) and all of them as `auth_results`; an unknown option is an error.",
        TOGETHER,
    ),
    shown(
        "mail_auth.iprev",
        "(ip, resolver or nil) -> result",
        "Whether the address has a name that leads back to it: `pass`, `fail`, `permerror` when it has no name, \
         `temperror` when DNS did not answer.",
        TOGETHER,
    ),
    shown(
        "mail_auth.iprev_msg",
        "(msg, resolver or nil) -> result",
        "The same for the client a message came from. An error for a message that came from none.",
        TOGETHER,
    ),
];

const OPTIONS: &[Name] = &[
    own("mail_auth.options.dkim", "boolean = true", "Verifies DKIM signatures.", TOGETHER),
    own("mail_auth.options.spf", "boolean = true", "Asks SPF about the client.", TOGETHER),
    own(
        "mail_auth.options.iprev",
        "boolean = true",
        "Looks whether the client's address has a name that leads back to it.",
        TOGETHER,
    ),
    own("mail_auth.options.smtp_auth", "boolean = true", "Tells as whom the client logged in.", TOGETHER),
    own(
        "mail_auth.options.dmarc",
        "boolean = true",
        "Asks DMARC about From. It needs `dkim` and `spf`, and is left out without one of them.",
        TOGETHER,
    ),
    own(
        "mail_auth.options.dmarc_tree_walk",
        "boolean = false",
        "Finds organisations by walking up the tree of names (RFC 9989) instead of by the list of public suffixes. \
         Ours.",
        WALK,
    ),
    own("mail_auth.options.arc", "boolean = true", "Checks the ARC chain.", TOGETHER),
    own("mail_auth.options.add_auth_results_header", "boolean = true", "Adds the header field.", TOGETHER),
    own(
        "mail_auth.options.server_id",
        "string or nil",
        "Who says so in the header field: when absent the `hostname` in the message's metadata, else `localhost`.",
        TOGETHER,
    ),
    own_unshown(
        "mail_auth.options.resolver",
        "string or nil",
        "Who is asked, of those that `kumo.dns.define_resolver` made; the resolver of mail when absent.",
    ),
];

const TOGETHER: &str = "crates/lua/tests/scripts/checks.rs::all_checks_together_make_the_header";
const WALK: &str = "crates/lua/tests/scripts/checks.rs::organisations_are_found_by_list_or_by_walk";
