//! smtp-client
