//! One shaping file, read.
//!
//! Owns [`Document`]: the blocks of a file, in its order, every key and value judged. In: the file's name and text, TOML
//! when the name ends in `.toml`, else JSON (KumoMTA behaviour). Fails with [`ShapingError`]. It does not know the other
//! files it will be merged with.

use crate::block::{self, Block};
use crate::error::ShapingError;
use crate::place::{Place, WHAT};
use crate::provider::Provider;
use crate::rule::PATTERNS_MAX;
use crate::site;
use serde_json::{Map, Value};

/// What one file says. A JSON member that is null is absent, as a nil member of a Lua table is.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub(crate) name: String,
    pub(crate) default: Option<DomainBlock>,
    pub(crate) domains: Vec<(String, DomainBlock)>,
    pub(crate) providers: Vec<(String, ProviderBlock)>,
}

/// The block of a domain, or of `default`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DomainBlock {
    pub replace_base: bool,
    /// Whether it is for the domain's whole site, where the file says so.
    pub mx_rollup: Option<bool>,
    pub block: Block,
}

/// The block of a provider.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ProviderBlock {
    pub replace_base: bool,
    pub provider: Provider,
}

impl Document {
    /// Reads the text of the file `name`, which may also be a URL.
    ///
    /// # Errors
    /// The first thing that is wrong, see [`ShapingError`].
    pub fn parse(name: &str, text: &str) -> Result<Document, ShapingError> {
        let place = Place::top(name);
        let whole = if name.ends_with(".toml") { from_toml(name, text)? } else { from_json(name, text)? };
        let whole = Value::Object(place.table(whole)?);
        // config's reader drops members that are null
        let table: Map<String, Value> = config::parse(WHAT, whole).map_err(|error| place.refused(error))?;
        let mut document =
            Document { name: name.to_owned(), default: None, domains: Vec::new(), providers: Vec::new() };
        for (key, value) in table {
            match key.as_str() {
                DEFAULT => document.default = Some(DomainBlock::read(&place.key(DEFAULT), value)?),
                PROVIDER => {
                    let place = place.key(PROVIDER);
                    for (name, value) in place.table(value)? {
                        let block = ProviderBlock::read(&place.name(&name), value)?;
                        document.providers.push((name, block));
                    }
                }
                domain => {
                    let folded = domain_name(&place, domain)?;
                    let block = DomainBlock::read(&place.name(domain), value)?;
                    if site::site_of_key(&folded).is_some() && block.mx_rollup == Some(false) {
                        return Err(place.name(domain).key(MX_ROLLUP).unlike("false", "true, as it is about a site"));
                    }
                    document.domains.push((folded, block));
                }
            }
        }
        within(name, "blocks", document.blocks(), BLOCKS_MAX)?;
        within(name, "regular expressions", document.patterns(), PATTERNS_MAX)?;
        Ok(document)
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Blocks of domains, of providers and of their sources.
    pub(crate) fn blocks(&self) -> usize {
        self.each().map(Block::count).sum()
    }

    /// Expressions of all rules.
    pub(crate) fn patterns(&self) -> usize {
        self.each().map(Block::patterns).sum()
    }

    fn each(&self) -> impl Iterator<Item = &Block> {
        let domains = self.domains.iter().map(|(_, domain)| &domain.block);
        let providers = self.providers.iter().map(|(_, provider)| &provider.provider.block);
        self.default.iter().map(|default| &default.block).chain(domains).chain(providers)
    }
}

impl DomainBlock {
    fn read(place: &Place<'_>, value: Value) -> Result<DomainBlock, ShapingError> {
        let mut table = place.table(value)?;
        let replace_base = block::take(place, &mut table, REPLACE_BASE)?.unwrap_or_default();
        let mx_rollup = block::take(place, &mut table, MX_ROLLUP)?;
        Ok(DomainBlock { replace_base, mx_rollup, block: Block::read(place, table, DOMAIN_KEYS)? })
    }
}

impl ProviderBlock {
    fn read(place: &Place<'_>, value: Value) -> Result<ProviderBlock, ShapingError> {
        let mut table = place.table(value)?;
        let replace_base = block::take(place, &mut table, REPLACE_BASE)?.unwrap_or_default();
        Ok(ProviderBlock { replace_base, provider: Provider::read(place, table)? })
    }
}

/// More than `count_max` is an error of the document `file`.
pub(crate) fn within(file: &str, what: &'static str, count: usize, count_max: usize) -> Result<(), ShapingError> {
    match count <= count_max {
        true => Ok(()),
        false => Err(ShapingError::TooMany { file: file.to_owned(), what, count, count_max }),
    }
}

fn from_toml(file: &str, text: &str) -> Result<Value, ShapingError> {
    let value = toml::from_str::<Value>(text).map_err(|error| {
        let line = 1 + error.span().map_or(0, |span| text.bytes().take(span.start).filter(|b| *b == b'\n').count());
        // not the whole error: it shows the line, and there may be a password in it
        let what = error.message().replace('\n', " ");
        ShapingError::Syntax { file: file.to_owned(), line, what, format: "TOML" }
    })?;
    match null_at(&Place::top(file), &value) {
        // JSON has no other way to write them
        Some(place) => Err(place.unlike("nan or inf", "a finite number")),
        None => Ok(value),
    }
}

fn from_json(file: &str, text: &str) -> Result<Value, ShapingError> {
    serde_json::from_str(text).map_err(|error: serde_json::Error| {
        let (line, what) = (error.line(), error.to_string());
        ShapingError::Syntax { file: file.to_owned(), line, what, format: "JSON" }
    })
}

/// As deep as the parser let it be.
fn null_at<'a>(place: &Place<'a>, value: &Value) -> Option<Place<'a>> {
    match value {
        Value::Null => Some(place.clone()),
        Value::Array(list) => list.iter().enumerate().find_map(|(n, value)| null_at(&place.index(n), value)),
        Value::Object(table) => table.iter().find_map(|(key, value)| {
            let below = if key.contains('.') { place.name(key) } else { place.key(key) };
            null_at(&below, value)
        }),
        _ => None,
    }
}

/// True when a document may have a block for a domain of that name: it is neither a key of the format nor looks like one misspelt.
pub fn is_domain_key(key: &str) -> bool {
    let is_of_format = TOP_KEYS.contains(&key) || near_key(key).is_some() || site::site_of_key(key).is_some();
    !site::folded(key).is_empty() && !is_of_format
}

fn near_key(key: &str) -> Option<&'static str> {
    config::nearest(key, TOP_KEYS).filter(|_| !key.contains('.'))
}

/// A word that looks like a misspelt key of the format is not taken for a domain.
fn domain_name(place: &Place<'_>, key: &str) -> Result<String, ShapingError> {
    let folded = site::folded(key);
    let near = near_key(key);
    let is_empty = folded.is_empty() || site::site_of_key(&folded).is_some_and(str::is_empty);
    match is_empty || near.is_some() {
        true => Err(place.unknown(key, near, "`default`, `provider`, the name of a domain or `site:NAME`".to_owned())),
        false => Ok(folded.into_owned()),
    }
}

/// Blocks of all documents together, those of sources included.
pub const BLOCKS_MAX: usize = 65_536;

/// The media type of shaping files in which sites may be named (`["site:NAME"]`). Whoever fetches one says so: KumoMTA's nodes do not
/// know of it.
pub const NAMED_SITES_MEDIA_TYPE: &str = "application/vnd.postrider.shaping+toml";

const DEFAULT: &str = "default";
const PROVIDER: &str = "provider";
const TOP_KEYS: &[&str] = &[DEFAULT, PROVIDER];
const REPLACE_BASE: &str = "replace_base";
const MX_ROLLUP: &str = "mx_rollup";
/// Keys of a domain that are no options of a path.
const DOMAIN_KEYS: &[&str] = &[MX_ROLLUP, REPLACE_BASE, block::SOURCES, block::AUTOMATION];

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
