//! Domains, suffixes and organisations of names.

use public_suffix::{domain, organisation, suffix};

#[test]
fn names_have_domains_suffixes_and_organisations() {
    for (name, its_domain, its_suffix, its_organisation) in [
        ("mx1.mail.example.co.uk", Some("example.co.uk"), Some("co.uk"), "example.co.uk"),
        ("example.com", Some("example.com"), Some("com"), "example.com"),
        ("co.uk", None, Some("co.uk"), "co.uk"),
        ("a.b.nowhere", Some("b.nowhere"), Some("nowhere"), "b.nowhere"),
        ("", None, None, ""),
    ] {
        assert_eq!(
            (domain(name), suffix(name), organisation(name)),
            (its_domain, its_suffix, its_organisation),
            "{name:?}"
        );
    }
}
