//! A message being prepared: envelope, raw bytes, and the edits policy makes.

/// Placeholder until headers land.
#[derive(Debug)]
pub struct Draft;
