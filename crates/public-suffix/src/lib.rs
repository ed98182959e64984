//! The Public Suffix List: under which names anybody may register, and what is registered.
//!
//! In: a domain name in lower case. Out: a part of it. The list is compiled into this crate alone: it is long code, which every crate
//! that asked the library would compile once more. Pure, and never wrong about more than its list, which is as old as its library.

/// The registrable domain of a name: `example.co.uk` of `mx.example.co.uk`; none of a public suffix.
pub fn domain(name: &str) -> Option<&str> {
    psl::domain_str(name)
}

/// The public suffix of a name: `co.uk`. An unknown top-level domain is one.
pub fn suffix(name: &str) -> Option<&str> {
    psl::suffix_str(name)
}

/// The organisational domain of a name (RFC 7489 section 3.2): the registrable one; of a public suffix, the name
/// itself.
pub fn organisation(name: &str) -> &str {
    domain(name).unwrap_or(name)
}
