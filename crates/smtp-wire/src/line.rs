//! Finds command lines in a receive buffer.
