//! What is looked at: the server as its policy and the files beside it describe it, and what the command line adds.
//!
//! In: the values a policy's `init` set, its folder, flags. Out: [`Subject`]. Fails by a file beside the policy that cannot be
//! read as what its name says.
//!
//! `sources.toml` and `dkim.toml` (or `dkim_data.toml`) are where `postrider init` and KumoMTA's users keep them. What a script
//! makes up by itself is not seen: flags name it.

use anyhow::Context;
use policy::Startup;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// A server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Subject {
    /// What it calls itself where nothing else is said.
    pub hostname: String,
    /// Addresses it sends from, and what it says in EHLO there.
    pub sources: BTreeMap<IpAddr, String>,
    /// Those that its configuration binds: they are to be addresses of this host.
    pub bound: Vec<IpAddr>,
    /// Domains it sends for.
    pub domains: Vec<String>,
    pub keys: Vec<SigningKeyFile>,
}

/// A key that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SigningKeyFile {
    pub domain: String,
    pub selector: String,
    /// Where it is, if it is in a file here.
    pub file: Option<PathBuf>,
}

/// What the command line adds.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    pub hostname: Option<String>,
    pub sources: Vec<IpAddr>,
    pub domains: Vec<String>,
}

impl Subject {
    /// Everything that is known. `machine` is what the machine calls itself.
    ///
    /// # Errors
    /// A file beside the policy does not read.
    pub fn new(given: Given, startup: &Startup, folder: Option<&Path>, machine: &str) -> anyhow::Result<Subject> {
        let of_listener = startup.esmtp_listeners.iter().find_map(|listener| listener.params.hostname.clone());
        let hostname = given.hostname.or(of_listener).unwrap_or_else(|| machine.to_owned());
        let mut subject = Subject { hostname: hostname.clone(), domains: given.domains, ..Subject::default() };
        if let Some(folder) = folder {
            subject.add_sources(&table(&folder.join("sources.toml"))?);
            subject.bound = subject.sources.keys().copied().collect();
            for name in ["dkim.toml", "dkim_data.toml"] {
                subject.add_keys(&table(&folder.join(name))?);
            }
        }
        // Whom the command line names counts alone.
        if !given.sources.is_empty() {
            let known = std::mem::take(&mut subject.sources);
            let ehlo = |ip: &IpAddr| known.get(ip).cloned().unwrap_or_else(|| hostname.clone());
            subject.sources = given.sources.iter().map(|ip| (*ip, ehlo(ip))).collect();
        }
        subject.domains.extend(subject.keys.iter().map(|key| key.domain.clone()));
        subject.domains.sort_unstable();
        subject.domains.dedup();
        Ok(subject)
    }

    fn add_sources(&mut self, table: &Value) {
        for source in table["source"].as_object().into_iter().flat_map(|sources| sources.values()) {
            let ehlo = source["ehlo_domain"].as_str().unwrap_or(&self.hostname).to_owned();
            match source["source_address"].as_str().and_then(|address| address.parse().ok()) {
                Some(address) => _ = self.sources.insert(address, ehlo),
                // The system chooses; what it says in EHLO is known all the same.
                None => self.hostname = ehlo,
            }
        }
    }

    fn add_keys(&mut self, table: &Value) {
        let base = &table["base"];
        let domains = table["domain"].as_object().into_iter().flatten();
        let further = table["signature"].as_object().into_iter().flatten();
        let further = further.filter_map(|(_, options)| Some((options["domain"].as_str()?.to_owned(), options)));
        for (domain, options) in domains.map(|(name, options)| (name.clone(), options)).chain(further) {
            let selector = options["selector"].as_str().or(base["selector"].as_str());
            let Some(selector) = selector.filter(|_| !domain.contains('*')) else { continue };
            let default = || format!("{KEY_FOLDER}/{domain}/{selector}.key");
            let file = options["filename"].as_str().map_or_else(default, str::to_owned);
            let file = base["vault_mount"].is_null().then(|| file.into());
            self.keys.push(SigningKeyFile { domain: domain.to_ascii_lowercase(), selector: selector.to_owned(), file });
        }
    }
}

/// A TOML file as a value; nothing if it is not there.
fn table(path: &Path) -> anyhow::Result<Value> {
    match fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// Where keys are unless a file says otherwise (KumoMTA's place).
const KEY_FOLDER: &str = "/opt/kumomta/etc/dkim";

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCES: &str = "[source.\"a\"]\nsource_address = \"192.0.2.1\"\nehlo_domain = \"a.example.com\"\n\
        [source.\"b\"]\nsource_address = \"2001:db8::1\"\n[pool.\"p\".\"a\"]\nweight = 1\n";
    const KEYS: &str = "[base]\nselector = \"s1\"\n[domain.\"Example.com\"]\nfilename = \"/k/e.key\"\n\
        [domain.\"example.org\"]\nselector = \"s2\"\n[domain.\"*.example.net\"]\n\
        [signature.\"all\"]\ndomain = \"esp.example\"\n";

    #[test]
    fn files_beside_the_policy_say_who_sends_and_signs() {
        let folder = tempfile::tempdir().expect("scratch");
        fs::write(folder.path().join("sources.toml"), SOURCES).expect("written");
        fs::write(folder.path().join("dkim.toml"), KEYS).expect("written");
        let esmtp = serde_json::json!({"hostname": "mta1.example.com"});
        let startup = Startup {
            esmtp_listeners: vec![config::parse("start_esmtp_listener", esmtp).expect("sound")],
            ..Startup::default()
        };
        let subject = |given| Subject::new(given, &startup, Some(folder.path()), "machine").expect("sound files");
        let found = subject(Given::default());
        assert_eq!(found.hostname, "mta1.example.com");
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let named = |address, name: &str| (ip(address), name.to_owned());
        let expected = [named("192.0.2.1", "a.example.com"), named("2001:db8::1", "mta1.example.com")];
        assert_eq!(found.sources, expected.into_iter().collect());
        assert_eq!(found.domains, ["esp.example", "example.com", "example.org"]);
        let keys: Vec<_> = found.keys.iter().map(|key| (key.selector.as_str(), key.file.as_deref())).collect();
        let path = |text| Some(Path::new(text));
        assert_eq!(
            keys,
            [
                ("s1", path("/k/e.key")),
                ("s2", path("/opt/kumomta/etc/dkim/example.org/s2.key")),
                ("s1", path("/opt/kumomta/etc/dkim/esp.example/s1.key"))
            ]
        );
        let given = Given {
            hostname: Some("other.example".to_owned()),
            sources: vec![ip("192.0.2.1"), ip("192.0.2.9")],
            domains: vec!["shop.example".to_owned()],
        };
        let found = subject(given);
        let expected = [named("192.0.2.1", "a.example.com"), named("192.0.2.9", "other.example")];
        assert_eq!(found.sources, expected.into_iter().collect());
        assert_eq!(found.domains[3], "shop.example");
        assert_eq!(
            found.bound,
            [ip("192.0.2.1"), ip("2001:db8::1")],
            "what the command line names may be before a router"
        );
    }

    #[test]
    fn without_a_policy_the_machine_is_looked_at() {
        let found =
            Subject::new(Given::default(), &Startup::default(), None, "machine.example").expect("nothing to read");
        assert_eq!(found, Subject { hostname: "machine.example".to_owned(), ..Subject::default() });
        let folder = tempfile::tempdir().expect("scratch");
        assert!(Subject::new(Given::default(), &Startup::default(), Some(folder.path()), "m").is_ok());
        fs::write(folder.path().join("sources.toml"), "[").expect("written");
        let refused = Subject::new(Given::default(), &Startup::default(), Some(folder.path()), "m");
        assert!(refused.is_err_and(|error| format!("{error:#}").contains("sources.toml")));
    }
}
