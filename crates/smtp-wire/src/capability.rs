//! What a server announced in its EHLO reply (RFC 5321 section 4.1.1.1).
pub struct Capabilities;
