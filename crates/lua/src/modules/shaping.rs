//! `kumo.shaping`: shaping files, put together and asked.
//!
//! In: names of files, and what to make of what is wrong with them. Out: a [`LuaShaping`]. DNS is asked for the sites of the
//! domains the files name. Fails with the file and the place in it; what is wrong with destinations is listed by severity.

use crate::api::{Function, Member, Module, Proof::Test, Type, function};
use crate::context::Host;
use crate::convert;
use crate::files;
use crate::modules::json_comments::blanked;
use crate::modules::memoize::commons;
use crate::names::resolver_of;
use crate::types::shaping::LuaShaping;
use crate::waiting::{GRACE, wait};
use mlua::{Lua, Value};
use net::dns::MxCache;
use route::RoutingDomain;
use shaping::{Assembly, Document, LoadOptions, NAMED_SITES_MEDIA_TYPE, Problem, Resolved, Severity, ShapingError};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use web::{Method, Request};

/// The module.
pub(crate) const SHAPING: Module = Module {
    name: "kumo.shaping",
    doc: "What is allowed towards each destination, from shaping files.",
    functions: &[FUNCTIONS],
    types: &[TYPE],
};

const FUNCTIONS: &[Function] = &[function!(
    waits
    "kumo.shaping",
    "load",
    "(files, options or nil) -> Shaping",
    "Reads shaping files, later ones over earlier ones, and asks DNS for the sites of the domains in them. Files whose names \
     end in `.toml` are TOML, others JSON. Options say what is made of what is wrong, each `Ignore`, `Warn` or `Error`: \
     `aliased_site`, `dns_fail`, `null_mx`, `provider_overlap`, `remote_load` (all `Ignore`), `local_load` (`Error`); \
     `skip_remote = false`; `http_timeout = '5s'`. A file that cannot be read raises where its option says `Error`; one of \
     another server counts as it was last read for ten minutes more, which is logged. A local file whose content is wrong always \
     raises.",
    Test("crates/lua/tests/scripts/shaping.rs::files_are_merged_and_wrong_ones_are_named"),
    |lua: Lua, (files, options): (Vec<String>, Option<Value>)| load(lua, files, options)
)];

async fn load(lua: Lua, files: Vec<String>, options: Option<Value>) -> mlua::Result<LuaShaping> {
    let options: LoadOptions = match options {
        Some(options @ (Value::Table(_) | Value::UserData(_))) => convert::parsed("kumo.shaping.load", &options)?,
        Some(Value::Nil) | None => LoadOptions::default(),
        Some(other) => return Err(mlua::Error::runtime(format!("options: a {}: expected a table", other.type_name()))),
    };
    let mut documents = Vec::with_capacity(files.len());
    let mut missing = Vec::new();
    for file in files {
        let is_remote = file.starts_with("http://") || file.starts_with("https://");
        if is_remote && options.skip_remote {
            continue;
        }
        if is_of_community(&file) {
            missing.push((Severity::Warn, Problem::NotLoaded { file: file.clone(), what: NOT_OURS.to_owned() }));
        }
        let severity = if is_remote { options.remote_load } else { options.local_load };
        let text = match is_remote {
            true => fetch(&lua, &file, options.http_timeout.get()).await,
            false => read(&lua, &file).await,
        };
        let document = text.and_then(|text| Document::parse(&file, &plain(&file, text)).map_err(mlua::Error::external));
        let document = if is_remote { last_good(&lua, &file, document)? } else { document };
        match document {
            Ok(document) => documents.push(document),
            // What is wrong in a file of this node is an error whatever the options say of files that are not there.
            Err(why) if !is_remote && why.downcast_ref::<ShapingError>().is_some() => return Err(why),
            Err(why) if severity == Severity::Error => return Err(why),
            Err(why) => missing.push((severity, Problem::NotLoaded { file, what: why.to_string() })),
        }
    }
    let dns_fail = options.dns_fail;
    let mut assembly = Assembly::new(documents, options).map_err(mlua::Error::external)?;
    missing.into_iter().for_each(|(severity, problem)| assembly.report(severity, problem));
    let mut sites = sites(&lua, assembly.domains().map(str::to_owned).collect()).await?;
    match lua.globals().get::<Option<bool>>("_VALIDATING_CONFIG")?.unwrap_or(false) {
        true => take_for_sites(&mut sites, &mut assembly, dns_fail),
        false => commons(&lua)?.shaping_sites.say(&sites),
    }
    let unknown = || Resolved::Failed("no answer in time".to_owned());
    let shaping = assembly.build(&|domain| sites.get(domain).cloned().unwrap_or_else(unknown));
    Ok(LuaShaping(Arc::new(shaping)))
}

/// A file of another server as it is now, or as it was last read while that server does not give it, for [`REMEMBERED_FOR`].
fn last_good(lua: &Lua, url: &str, now: mlua::Result<Document>) -> mlua::Result<mlua::Result<Document>> {
    let commons = commons(lua)?;
    match now {
        Ok(document) => {
            commons.shaping_files.note(url, &document);
            Ok(Ok(document))
        }
        Err(why) => match commons.shaping_files.recall(url) {
            Some(document) => {
                tracing::warn!(target: "lua", "kumo.shaping.load: {url}: {why}: what it said last counts");
                Ok(Ok(document))
            }
            None => Ok(Err(why)),
        },
    }
}

/// The domains whose sites nobody knew when they were asked for last.
#[derive(Default)]
pub(crate) struct UnknownSites(Mutex<BTreeSet<String>>);

impl UnknownSites {
    /// Says which they are, when they are others than before.
    fn say(&self, sites: &HashMap<String, Resolved>) {
        let failed = sites.iter().filter_map(|(domain, site)| match site {
            Resolved::Failed(why) => Some((domain.clone(), why)),
            Resolved::Site(_) | Resolved::NullMx => None,
        });
        let failed: BTreeMap<String, &String> = failed.collect();
        let mut before = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !failed.keys().eq(before.iter()) {
            let named: Vec<String> =
                failed.iter().take(NAMED_MAX).map(|(domain, why)| format!("{domain}: {why}")).collect();
            match failed.len() {
                0 => tracing::info!(target: "lua", "kumo.shaping.load: the sites of all domains are known again"),
                count => tracing::warn!(
                    target: "lua",
                    "kumo.shaping.load: the sites of {count} domains cannot be found out, and what is said of them counts for them alone: {}{}",
                    named.join("; "),
                    if count > named.len() { "; ..." } else { "" }
                ),
            }
            *before = failed.into_keys().collect();
        }
    }
}

/// Files of other servers as they were last read.
#[derive(Default)]
pub(crate) struct RemoteFiles(Mutex<HashMap<String, (Instant, Document)>>);

impl RemoteFiles {
    fn note(&self, url: &str, document: &Document) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX && !known.contains_key(url) {
            known.retain(|_, (at, _)| at.elapsed() < REMEMBERED_FOR);
        }
        if known.len() < REMEMBERED_MAX || known.contains_key(url) {
            known.insert(url.to_owned(), (Instant::now(), document.clone()));
        }
    }

    fn recall(&self, url: &str) -> Option<Document> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(url).filter(|(at, _)| at.elapsed() < REMEMBERED_FOR).map(|(_, document)| document.clone())
    }
}

/// The text of a file. Policies and daemons name the two files that KumoMTA installs; who has not got them has the built-in rules, and
/// nothing of the second.
async fn read(lua: &Lua, file: &str) -> mlua::Result<String> {
    let is_there = || std::path::Path::new(file).exists();
    if file == BUILT_IN || file == INSTALLED && !is_there() {
        return Ok(include_str!("../../../../share/policy-extras/shaping.toml").to_owned());
    }
    if is_of_community(file) {
        return Ok(String::new());
    }
    utf8(file, files::read(lua, file).await?)
}

/// Where it is not, the rules that KumoMTA's users share are nobody's, which is said.
fn is_of_community(file: &str) -> bool {
    file == OF_COMMUNITY && !std::path::Path::new(file).exists()
}

/// The text of a file on another server.
async fn fetch(lua: &Lua, url: &str, timeout: Duration) -> mlua::Result<String> {
    let client = commons(lua)?.web.files().map_err(mlua::Error::runtime)?;
    let mut request = Request::new(Method::GET, url).map_err(mlua::Error::runtime)?;
    request.timeout = Some(timeout);
    // A traffic shaping daemon names sites for whoever knows of that; other servers have files of one kind.
    let accepted = format!("{NAMED_SITES_MEDIA_TYPE}, */*");
    request.add_header("accept", accepted.as_bytes()).map_err(mlua::Error::runtime)?;
    let fetched = async {
        let answer = client.send(request).await.map_err(|e| e.to_string())?;
        match answer.status.is_success() {
            true => answer.content().await.map_err(|e| e.to_string()),
            false => Err(format!("status {}: expected 200", answer.status)),
        }
    };
    let content = wait(lua, "kumo.shaping.load", timeout.saturating_add(GRACE), fetched).await?;
    utf8(url, content.map_err(|why| mlua::Error::runtime(format!("{url}: {why}")))?.to_vec())
}

fn utf8(file: &str, octets: Vec<u8>) -> mlua::Result<String> {
    String::from_utf8(octets).map_err(|e| mlua::Error::runtime(format!("{file}: {e}")))
}

/// JSON without its comments; TOML as it is.
fn plain(file: &str, text: String) -> String {
    if file.ends_with(".toml") { text } else { blanked(&text) }
}

/// Domains about which nobody knows anything are that to whoever judges the files, and sites by themselves, so that what is said of
/// them is looked at.
fn take_for_sites(sites: &mut HashMap<String, Resolved>, assembly: &mut Assembly, severity: Severity) {
    for (domain, resolved) in sites {
        if let Resolved::Failed(what) = resolved {
            let problem = Problem::DnsFailed { domain: domain.clone(), what: std::mem::take(what) };
            assembly.report(severity, problem);
            *resolved = Resolved::Site(domain.clone());
        }
    }
}

/// The site of each domain.
async fn sites(lua: &Lua, domains: Vec<String>) -> mlua::Result<HashMap<String, Resolved>> {
    if domains.is_empty() {
        return Ok(HashMap::new());
    }
    let cache = resolver_of(lua, "kumo.shaping.load", None)?;
    let serves = lua.app_data_ref::<Host>().is_some_and(|host| host.names.get().is_some());
    // A start does not wait for name servers that are down.
    let longest = if serves { LOOKUPS_MAX } else { EARLY_LOOKUPS_MAX };
    wait(lua, "kumo.shaping.load", longest + GRACE, async move {
        let end = tokio::time::Instant::now() + longest;
        let mut asked = JoinSet::new();
        for domain in domains {
            let cache = cache.clone();
            asked.spawn(async move { (site(&cache, &domain).await, domain) });
        }
        let mut sites = HashMap::new();
        // What is not known by then has failed, as `dns_fail` says.
        while let Ok(Some(answer)) = tokio::time::timeout_at(end, asked.join_next()).await {
            if let Ok((site, domain)) = answer {
                sites.insert(domain, site);
            }
        }
        sites
    })
    .await
}

async fn site(cache: &MxCache, domain: &str) -> Resolved {
    let parsed = match RoutingDomain::parse(domain) {
        Ok(parsed) => parsed,
        Err(error) => return Resolved::Failed(error.to_string()),
    };
    match cache.resolve_site(&parsed).await {
        Ok(found) if found.is_null_mx() => Resolved::NullMx,
        Ok(found) => Resolved::Site(found.site_name().to_owned()),
        Err(error) => Resolved::Failed(error.to_string()),
    }
}

/// Domains that are named in one line.
const NAMED_MAX: usize = 10;
/// The name of the file that is carried in the program.
const BUILT_IN: &str = "postrider:shaping.toml";
/// Where KumoMTA installs its default rules.
const INSTALLED: &str = "/opt/kumomta/share/policy-extras/shaping.toml";
/// Where it installs those of its users.
const OF_COMMUNITY: &str = "/opt/kumomta/share/community/shaping.toml";
/// What is said where it is not.
const NOT_OURS: &str =
    "it is not there, so none of its limits and rules count: postrider:shaping.toml has the providers of this program";
/// How long what another server said counts while it says nothing.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Files that are remembered.
const REMEMBERED_MAX: usize = 64;
/// Longest time that the look-ups of one call may take together.
const LOOKUPS_MAX: Duration = Duration::from_secs(30);
/// The same before the program serves.
const EARLY_LOOKUPS_MAX: Duration = Duration::from_secs(15);

const TYPE: Type = Type {
    name: "Shaping",
    prefix: "shaping",
    doc: "What `kumo.shaping.load` returns. It may be memoized.",
    members: &[
        Member {
            name: "shaping:get_egress_path_config",
            signature: "(domain, source, site_name) -> table",
            doc: "The options of `kumo.make_egress_path` for this path; later ones win: default, providers, their sources, site, \
                  domain, their sources.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::files_are_merged_and_wrong_ones_are_named"),
        },
        Member {
            name: "shaping:get_errors",
            signature: "() -> list",
            doc: "What is wrong, of what the options call an `Error`.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::what_is_wrong_is_listed_by_severity"),
        },
        Member {
            name: "shaping:get_warnings",
            signature: "() -> list",
            doc: "What is wrong, of what the options call `Warn`.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::what_is_wrong_is_listed_by_severity"),
        },
        Member {
            name: "shaping:get_contradictions",
            signature: "() -> list",
            doc: "Options of one block that say something against each other, such as a `connection_limit` above its `max_ready`; \
                  `policy-extras.shaping` tells them under `--validate`. Ours, not KumoMTA's.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::options_that_contradict_one_another_are_told"),
        },
        Member {
            name: "shaping:get_referenced_sources",
            signature: "() -> table",
            doc: "The sources that blocks of domains and sites name, each with a list of `domain:NAME` and `site:NAME`.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::files_are_merged_and_wrong_ones_are_named"),
        },
        Member {
            name: "shaping:match_rules",
            signature: "(log_record) -> list",
            doc: "The automation rules that the response of a log record sets off.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::rules_are_found_by_the_response"),
        },
        Member {
            name: "shaping:hash",
            signature: "() -> string",
            doc: "Another text when the content is another.",
            proof: Test("crates/lua/tests/scripts/shaping.rs::files_are_merged_and_wrong_ones_are_named"),
        },
    ],
};
