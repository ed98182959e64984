//! `kumo.domain_map`, `kumo.cidr` and `kumo.regex_set_map`: look-ups by domain, address and pattern.
//!
//! The maps may be memoized: states then share one.

use crate::api::{Module, Proof::Example, function};
use crate::types::cidr_map::LuaCidrMap;
use crate::types::domain_map::LuaDomainMap;
use crate::types::regex_set_map::LuaRegexSetMap;

/// `kumo.domain_map`.
pub(crate) const DOMAIN_MAP: Module = Module {
    name: "kumo.domain_map",
    doc: "Values by domain name, with wildcards.",
    functions: &[&[function!(
        "kumo.domain_map",
        "new",
        "(table or nil) -> DomainMap",
        "A map from domain names to values; `map[name]` reads and `map[name] = value` writes. A name that stands in the map has \
         its value; any other has that of the nearest `*` above it. `*.example.com` is about names below `example.com` only, a \
         bare `*` about names whose top label stands nowhere in the map. Names are compared as they are written; `pairs` and `#` \
         are not there.",
        Example(
            "local map = kumo.domain_map.new { ['example.com'] = 'own', ['*.example.com'] = { level = 'below' } } \
             assert(map['example.com'] == 'own' and map['a.b.example.com'].level == 'below' and map['com'] == nil) \
             map['*'] = 'other' \
             assert(map['www.test'] == 'other' and map['other.com'] == nil) \
             map['a.example.com'] = 'a' map['a.example.com'] = nil assert(map['a.example.com'].level == 'below')"
        ),
        LuaDomainMap::make
    )]],
    types: &[],
};

/// `kumo.cidr`.
pub(crate) const CIDR: Module = Module {
    name: "kumo.cidr",
    doc: "Values by address block.",
    functions: &[&[function!(
        "kumo.cidr",
        "make_map",
        "(table or nil) -> CidrMap",
        "A map from addresses and CIDR blocks to values; `map[address]` gives the value of the longest block the address lies \
         in, nil when it lies in none, and `map[block] = value` writes. Addresses may be in brackets and have a port. A block \
         with host bits, and a key that is no address, are errors.",
        Example(
            "local map = kumo.cidr.make_map { ['10.0.0.0/8'] = 'wide', ['10.1.0.0/16'] = 'narrow', ['::1'] = 'here' } \
             assert(map['10.2.3.4'] == 'wide' and map['10.1.3.4:25'] == 'narrow' and map['[::1]:25'] == 'here') \
             map['10.1.0.0/16'] = nil assert(map['10.1.3.4'] == 'wide') \
             assert(map['192.0.2.1'] == nil and not pcall(function() return map['mail.test'] end)) \
             assert(not pcall(kumo.cidr.make_map, { ['10.0.0.1/8'] = 1 }))"
        ),
        LuaCidrMap::make
    )]],
    types: &[],
};

/// `kumo.regex_set_map`.
pub(crate) const REGEX_SET_MAP: Module = Module {
    name: "kumo.regex_set_map",
    doc: "Values by pattern.",
    functions: &[&[function!(
        "kumo.regex_set_map",
        "new",
        "(table) -> RegexSetMap",
        "A map from regular expressions to values; `map[text]` gives the value of a pattern that matches somewhere in the text. \
         All patterns are looked for in one pass; which one counts when several match is not said. Look-around and \
         back-references are not there. The map does not change.",
        Example(
            "local map = kumo.regex_set_map.new { ['^mx[0-9]+\\\\.a\\\\.test$'] = 'a', ['b'] = 'b' } \
             assert(map['mx10.a.test'] == 'a' and map['x.b.test'] == 'b' and map['c'] == nil) \
             assert(not pcall(kumo.regex_set_map.new, { ['('] = 1 }))"
        ),
        LuaRegexSetMap::make
    )]],
    types: &[],
};
