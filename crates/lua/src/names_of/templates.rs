//! Filters and functions of templates that are not Jinja's own.
//!
//! Facts: the contrib package of MiniJinja, `template` and `lua`'s own filter.

use crate::names_of::{Group, Name, Shape, shown};
use crate::value_names::Page;

/// The page.
pub(crate) const TEMPLATES: Page = Page {
    name: "templates",
    title: "Templates",
    doc: "Templates are of the Jinja kind, as MiniJinja has it, with these filters and functions besides its own. \
          They stand in `kumo.string.eval_template`, in requests to inject mail, in `maildir_path` and in `template` \
          of loggers; the first two also take `Handlebars` and `Static`, which have neither.",
    groups: &[
        Group {
            title: "Filters",
            doc: "A moment is a Unix time or a text of ISO 8601; anything else is an error.",
            example: None,
            shape: Shape::Forms,
            names: FILTERS,
        },
        Group {
            title: "Functions",
            doc: "What is called by its name.",
            example: None,
            shape: Shape::Forms,
            names: FUNCTIONS,
        },
    ],
};

const FILTERS: &[Name] = &[
    shown(
        "template.dateformat",
        "value|dateformat(format='medium', tz=nil)",
        "The date of a moment: `short` is `2026-11-25`, `medium` `Nov 25 2026`, `long` `November 25 2026`, `full` \
         has the day of the week, and any other is put together as `[day].[month].[year]`. `tz` is the name of a zone, the value's \
         own when absent.",
        HAVE,
    ),
    shown(
        "template.datetimeformat",
        "value|datetimeformat(format='medium', tz=nil)",
        "The same with the time: `short` is `2026-11-25 12:00`, `medium` `Nov 25 2026 12:00`, `long` and `full` \
         have seconds, and there are `iso` and `unix`. A date without a time is an error.",
        HAVE,
    ),
    shown(
        "template.timeformat",
        "value|timeformat(format='medium', tz=nil)",
        "The time alone: `short` and `medium` are `12:00`, `long` and `full` have seconds, and there are `iso` and \
         `unix`.",
        HAVE,
    ),
    shown(
        "template.filesizeformat",
        "value|filesizeformat(binary=false)",
        "Octets for people, in powers of 1000, as `2.0 MB`; with `true` in powers of 1024, as `1.0 KiB`.",
        HAVE,
    ),
    shown(
        "template.pluralize",
        "value|pluralize(singular='', plural='s')",
        "The first text for one, the second for any other number. Of a list its length counts; anything else is an \
         error.",
        HAVE,
    ),
    shown(
        "template.normalize_smtp_response",
        "text|normalize_smtp_response",
        "What [kumo.string.normalize_smtp_response](kumo.string.md#kumostringnormalize_smtp_response) makes of it.",
        HAVE,
    ),
];

const FUNCTIONS: &[Name] = &[
    shown(
        "template.cycler",
        "cycler(list)",
        "An object whose `next()` gives the items in turn, and then the first again.",
        HAVE,
    ),
    shown(
        "template.joiner",
        "joiner(separator=', ')",
        "A function that gives nothing when it is called first, and the separator each time after.",
        HAVE,
    ),
    shown("template.now", "now()", "The Unix time, in seconds with a fraction.", HAVE),
];

const HAVE: &str = "crates/lua/tests/scripts/templates.rs::templates_have_kumomtas_filters_and_functions";
