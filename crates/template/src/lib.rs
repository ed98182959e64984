//! Templates: text made of a source and values, in the languages KumoMTA's users write.
//!
//! Owns [`Dialect`] and [`Templates`], a set of named sources of one dialect, compiled once. In: sources, values as JSON. Out:
//! text. Fails with what the engine says of the source ([`TemplateError`]).
//!
//! HTML is escaped where the name of the template ends in `.html`, and nowhere else. A value that is missing is empty.
//! Deliberately absent: files, and partials of Handlebars, which could call themselves without end. Jinja templates may
//! include others of their set.
//!
//! Bounds: how deep a source goes, the steps of Jinja, and the octets that come out. What a template holds on its way is not
//! bounded, and neither are the loops of Handlebars: whoever writes templates is trusted to mean well. Threads that
//! carry out what comes with requests have a stack of [`STACK_OCTETS`]. Of templates that come with requests ([`Templates::of_request`]) less is taken.

mod depth;
mod dialect;
mod normalize;
mod templates;

pub use dialect::Dialect;
pub use normalize::normalized;
pub use templates::{STACK_OCTETS, TemplateError, Templates};
