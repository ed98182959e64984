//! smtp-server
