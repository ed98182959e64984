//! Which Maildir a recipient's copy goes to: the template of `maildir_path`, filled in.
//!
//! In: a message on loan, its queue, one recipient. Out: a path. The values come from an envelope, and so from anybody:
//! one that could leave its component of the path (a slash, `.` or `..`, a control character, more octets than a name may
//! have) is refused, and so is a path some component of which is empty, `.` or `..`. A value that the template calls
//! `safe` is let through: metadata may hold whole paths. Pure but for the template's own work, which is bounded.

use crate::egress::carrier::Lent;
use config::MaildirProtocol;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, Output, State, context};
use queue::QueueName;
use smtp_wire::Mailbox;
use std::error::Error;
use std::fmt::{self, Display};
use std::path::PathBuf;
use thiserror::Error as ThisError;

/// The template, compiled, and the modes of what is made.
pub(crate) struct Template {
    environment: Environment<'static>,
    pub dir_mode: Option<u32>,
    pub file_mode: Option<u32>,
}

/// Why there is no path.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub(crate) enum PlaceError {
    /// The template cannot be read or filled in: the operator's affair.
    #[error("maildir_path: {0}")]
    Template(String),
    /// The path as a whole is none: the same.
    #[error("maildir_path: {0:?} has a component that is empty, `.` or `..`")]
    Shape(String),
    /// A value of the envelope or the metadata must not stand in a path.
    #[error("maildir_path: {0:?} cannot be part of a path")]
    Value(String),
}

/// What the formatter refuses.
#[derive(Debug, ThisError)]
#[error("{0:?} cannot be part of a path")]
struct Refused(String);

impl Template {
    /// Compiles the template.
    pub fn new(protocol: &MaildirProtocol) -> Result<Template, PlaceError> {
        if protocol.maildir_path.contains(NOTHING) {
            return Err(PlaceError::Shape(protocol.maildir_path.clone()));
        }
        let mut environment = Environment::new();
        minijinja_contrib::add_to_environment(&mut environment);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(write_value);
        environment.add_template_owned(NAME, protocol.maildir_path.clone()).map_err(|e| explain(&e))?;
        Ok(Template { environment, dir_mode: protocol.dir_mode, file_mode: protocol.file_mode })
    }

    /// The Maildir of one recipient.
    pub fn place(&self, message: &Lent, recipient: &Mailbox) -> Result<PathBuf, PlaceError> {
        let QueueName { campaign, tenant, domain, routing_domain } = QueueName::parse(&message.queue);
        let sender = message.draft.envelope.sender.0.as_ref();
        let values = context! {
            meta => Value::from_serialize(message.draft.meta.as_map()),
            queue => &*message.queue,
            campaign, tenant, domain, routing_domain,
            local_part => recipient.user().into_owned(),
            domain_part => recipient.domain(),
            email => recipient.as_str(),
            sender_local_part => sender.map(|s| s.user().into_owned()).unwrap_or_default(),
            sender_domain_part => sender.map(Mailbox::domain).unwrap_or_default(),
            sender_email => sender.map(Mailbox::as_str).unwrap_or_default(),
        };
        let template = self.environment.get_template(NAME).map_err(|e| explain(&e))?;
        let path = template.render(values).map_err(|e| explain(&e))?;
        let (is_sound, path) = (is_sound(&path), path.replace(NOTHING, ""));
        match is_sound {
            true => Ok(path.into()),
            false => Err(PlaceError::Shape(path)),
        }
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").finish_non_exhaustive()
    }
}

/// Writes a value into the path, or refuses it.
fn write_value(out: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), minijinja::Error> {
    let text = if value.is_undefined() { String::new() } else { value.to_string() };
    if text.contains(NOTHING) || (!value.is_safe() && !stays_in_place(&text)) {
        let refused = minijinja::Error::new(ErrorKind::InvalidOperation, "a value was refused");
        return Err(refused.with_source(Refused(text)));
    }
    // So that a last component which is nothing is not taken for a slash at the end.
    let text = if text.is_empty() { NOTHING } else { &*text };
    out.write_str(text).map_err(minijinja::Error::from)
}

fn stays_in_place(value: &str) -> bool {
    let leaves = |c: char| c == '/' || c.is_control();
    value.len() <= NAME_OCTETS_MAX && value != "." && value != ".." && !value.contains(leaves)
}

/// True when no component does anything but name one thing in the one before; there may be a slash behind the last.
fn is_sound(path: &str) -> bool {
    let inner = path.strip_prefix('/').unwrap_or(path);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    inner.split('/').all(|part| !matches!(&*part.replace(NOTHING, ""), "" | "." | ".."))
}

fn explain(error: &minijinja::Error) -> PlaceError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(Refused(value)) = this.downcast_ref() {
            return PlaceError::Value(shorten(value));
        }
        cause = this.source();
    }
    PlaceError::Template(one_line(error))
}

fn one_line(text: &impl Display) -> String {
    text.to_string().lines().collect::<Vec<_>>().join(" ")
}

fn shorten(value: &str) -> String {
    value.chars().take(SHOWN_MAX).collect()
}

/// What an empty value is written as, for the time being; no path has it.
const NOTHING: &str = "\0";
/// The one template of an environment.
const NAME: &str = "maildir_path";
/// Longest name in a directory, in octets (NAME_MAX of Linux).
const NAME_OCTETS_MAX: usize = 255;
/// Characters of a refused value that are shown.
const SHOWN_MAX: usize = 100;
/// Steps a template may take.
const FUEL: u64 = 100_000;

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
