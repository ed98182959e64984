//! sender-auth
