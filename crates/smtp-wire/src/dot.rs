//! Dot-stuffing of content to be sent.
