//! Reads a server's replies incrementally.
