//! SMTP commands parsed from one line.
pub struct Command;
pub struct CommandError;
