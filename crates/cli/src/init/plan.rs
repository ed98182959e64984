//! What `postrider init` writes, and what it tells people to publish: answers in, texts out.
//!
//! Pure but for the keys, which are made at random. Fails by an answer that cannot be used; the error names the question's
//! flag and the word.

use anyhow::{Context, bail, ensure};
use config::HostPort;
use sender_auth::{SigningKey, new_rsa_key};
use std::net::IpAddr;
use std::path::Path;

/// What was asked.
pub(crate) struct Answers {
    pub hostname: String,
    pub clients: String,
    pub sources: String,
    pub domains: String,
    pub dir: String,
    pub listen: String,
    pub http: String,
    pub spool: String,
    pub logs: String,
}

/// Files to be written, and records to be published.
pub(crate) struct Plan {
    pub files: Vec<File>,
    records: Vec<String>,
}

/// One file, by its place in the folder.
pub(crate) struct File {
    pub name: String,
    pub text: String,
    pub is_secret: bool,
}

impl Plan {
    /// Judges the answers and makes everything of them.
    pub fn new(answers: &Answers) -> anyhow::Result<Plan> {
        let hostname = name("--hostname", &answers.hostname)?;
        let clients = words(&answers.clients).map(client).collect::<anyhow::Result<Vec<_>>>()?;
        let mut sources: Vec<IpAddr> = Vec::new();
        for address in words(&answers.sources).map(source) {
            let address = address?;
            ensure!(!sources.contains(&address), "--sources: {address} is there twice");
            sources.push(address);
        }
        let mut domains =
            words(&answers.domains).map(|domain| name("--domains", domain)).collect::<anyhow::Result<Vec<_>>>()?;
        domains.sort();
        domains.dedup();
        let places = [("--dir", &answers.dir), ("--spool", &answers.spool), ("--logs", &answers.logs)];
        places.into_iter().try_for_each(|(flag, path)| quotable(flag, path))?;
        places[1..].iter().try_for_each(|(flag, path)| absolute(flag, path))?;
        let (listen, http) = (place("--listen", &answers.listen)?, place("--http", &answers.http)?);
        ensure!(!collide(&listen, &http), "--http: {http} has the port of --listen {listen}: expected another");
        let mut files = Vec::new();
        let mut records =
            vec![format!("{hostname} and the address it sends from name each other (A or AAAA, and PTR)")];
        for domain in &domains {
            let pem = new_rsa_key().context("making a key")?;
            let record = SigningKey::from_pem_or_der(pem.as_bytes())?.dns_record().context("a key without a record")?;
            files.push(File { name: key_file(domain), text: pem, is_secret: true });
            records.push(format!("{SELECTOR}._domainkey.{domain}. TXT {}", quoted(&record)));
            records.push(format!("{domain}. TXT \"{}\"", spf(&sources, &hostname)));
            records.push(format!("_dmarc.{domain}. TXT \"v=DMARC1; p=none\""));
        }
        let fill = |name: &str, text: &str, pairs: &[(&str, &str)]| {
            let text = pairs.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value));
            File { name: name.to_owned(), text, is_secret: false }
        };
        let clients: Vec<String> = clients.iter().map(|client| format!("'{client}'")).collect();
        files.push(fill(
            "init.lua",
            INIT,
            &[
                ("@DIR@", &answers.dir),
                ("@SPOOL@", &answers.spool),
                ("@LOGS@", &answers.logs),
                ("@HTTP@", &answers.http),
                ("@LISTEN@", &answers.listen),
                ("@HOSTNAME@", &hostname),
                ("@CLIENTS@", &clients.join(", ")),
            ],
        ));
        files.push(fill("sources.toml", SOURCES, &[("@SOURCES@\n", &sources_of(&sources, &hostname))]));
        files.push(fill("queues.toml", QUEUES, &[]));
        files.push(fill("shaping.toml", SHAPING, &[]));
        let reports = |domain: &String| format!("\n[\"{domain}\"]\nlog_oob = true\nlog_arf = true\n");
        let reports: String = domains.iter().map(reports).collect();
        files.push(fill("listener_domains.toml", LISTENER_DOMAINS, &[("@DOMAINS@\n", &reports)]));
        let signed =
            |domain: &String| format!("\n[domain.\"{domain}\"]\nfilename = \"{}/{}\"\n", answers.dir, key_file(domain));
        let signed: String = domains.iter().map(signed).collect();
        files.push(fill("dkim.toml", DKIM, &[("@DOMAINS@\n", &signed)]));
        Ok(Plan { files, records })
    }

    /// What is left to be done, for people.
    pub fn advice(&self, answers: &Answers, user: &str) -> String {
        let mut text = String::from("written:\n");
        self.files.iter().for_each(|file| text.push_str(&format!("  {}/{}\n", answers.dir, file.name)));
        text.push_str("\nto be published in DNS:\n");
        self.records.iter().for_each(|record| text.push_str(&format!("  {record}\n")));
        let dir = &answers.dir;
        text.push_str(&format!("\nnow:\n  kumod --policy {dir}/init.lua --user {user} --validate\n"));
        text.push_str(&format!("  kumod --policy {dir}/init.lua --user {user}\n"));
        text
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ']).filter(|word| !word.is_empty())
}

/// A host or domain name, in lower case.
fn name(flag: &str, text: &str) -> anyhow::Result<String> {
    let label = |label: &str| {
        let plain = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
    };
    let text = text.trim_end_matches('.').to_ascii_lowercase();
    match text.len() <= 253 && text.split('.').all(label) {
        true => Ok(text),
        false => bail!("{flag}: `{text}` is no host name: expected one like mta1.example.com"),
    }
}

fn client(text: &str) -> anyhow::Result<String> {
    let block = config::parse_cidr(text).map_err(|error| anyhow::anyhow!("--clients: {error}"))?;
    Ok(config::show_cidr(block))
}

fn source(text: &str) -> anyhow::Result<IpAddr> {
    let address = text.parse().ok().filter(|address: &IpAddr| !address.is_unspecified() && !address.is_multicast());
    address.with_context(|| format!("--sources: `{text}` is no IP address of a host"))
}

/// Where to listen.
fn place(flag: &str, text: &str) -> anyhow::Result<HostPort> {
    quotable(flag, text)?;
    text.parse().map_err(|error| anyhow::anyhow!("{flag}: {error}"))
}

/// Whether two listeners would have one port of one address.
fn collide(one: &HostPort, other: &HostPort) -> bool {
    let any = |place: &HostPort| place.socket_addr().is_some_and(|at| at.ip().is_unspecified());
    one.port == other.port && one.port != 0 && (one.host == other.host || any(one) || any(other))
}

/// The server may be started anywhere.
fn absolute(flag: &str, path: &str) -> anyhow::Result<()> {
    ensure!(Path::new(path).is_absolute(), "{flag}: `{path}`: expected an absolute path");
    Ok(())
}

/// Refuses what would end a quoted text in Lua or TOML.
fn quotable(flag: &str, text: &str) -> anyhow::Result<()> {
    match text.is_empty() || text.chars().any(|c| c.is_control() || matches!(c, '\'' | '"' | '\\')) {
        true => bail!("{flag}: `{}`: expected a text without quotes and backslashes", text.escape_default()),
        false => Ok(()),
    }
}

fn key_file(domain: &str) -> String {
    format!("dkim/{domain}.{SELECTOR}.key")
}

fn sources_of(sources: &[IpAddr], hostname: &str) -> String {
    let mut text = String::new();
    for (number, source) in sources.iter().enumerate() {
        let name = format!("ip-{}", number + 1);
        text.push_str(&format!("\n[source.\"{name}\"]\nsource_address = \"{source}\"\nehlo_domain = \"{hostname}\"\n"));
        text.push_str(&format!("\n[pool.\"default\".\"{name}\"]\nweight = 1\n"));
    }
    if sources.is_empty() {
        text = format!("\n[source.\"any\"]\nehlo_domain = \"{hostname}\"\n\n[pool.\"default\".\"any\"]\nweight = 1\n");
    }
    text
}

fn spf(sources: &[IpAddr], hostname: &str) -> String {
    let by_address = |source: &IpAddr| match source {
        IpAddr::V4(source) => format!("ip4:{source}"),
        IpAddr::V6(source) => format!("ip6:{source}"),
    };
    let mut terms: Vec<String> = sources.iter().map(by_address).collect();
    if terms.is_empty() {
        terms.push(format!("a:{hostname}"));
    }
    format!("v=spf1 {} ~all", terms.join(" "))
}

/// A TXT record's value in strings of at most 255 octets (RFC 1035 section 3.3.14).
fn quoted(value: &str) -> String {
    let parts = value.as_bytes().chunks(255).map(|part| format!("\"{}\"", String::from_utf8_lossy(part)));
    parts.collect::<Vec<_>>().join(" ")
}

const SELECTOR: &str = "s1";
const INIT: &str = include_str!("../../../../share/init/init.lua");
const SOURCES: &str = include_str!("../../../../share/init/sources.toml");
const QUEUES: &str = include_str!("../../../../share/init/queues.toml");
const SHAPING: &str = include_str!("../../../../share/init/shaping.toml");
const LISTENER_DOMAINS: &str = include_str!("../../../../share/init/listener_domains.toml");
const DKIM: &str = include_str!("../../../../share/init/dkim.toml");

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Answers {
        Answers {
            hostname: "MTA1.example.com.".to_owned(),
            clients: "10.0.0.0/8, ::1".to_owned(),
            sources: "192.0.2.1 2001:db8::1".to_owned(),
            domains: "example.com, Example.com.".to_owned(),
            dir: "/etc/mail".to_owned(),
            listen: "0.0.0.0:25".to_owned(),
            http: "127.0.0.1:8000".to_owned(),
            spool: "/var/spool/mail".to_owned(),
            logs: "/var/log/mail".to_owned(),
        }
    }

    #[test]
    fn answers_become_files_and_records() {
        let plan = Plan::new(&answers()).expect("sound answers");
        let text = |name: &str| plan.files.iter().find(|file| file.name == name).expect("a file").text.as_str();
        assert!(text("init.lua").contains("relay_hosts = { '10.0.0.0/8', '::1' },"));
        assert!(text("sources.toml").contains("\n[source.\"ip-2\"]\nsource_address = \"2001:db8::1\"\n"));
        assert!(
            text("dkim.toml")
                .ends_with("\n[domain.\"example.com\"]\nfilename = \"/etc/mail/dkim/example.com.s1.key\"\n")
        );
        assert!(plan.files.iter().all(|file| !file.text.contains('@')), "a mark is left");
        let secret: Vec<&str> =
            plan.files.iter().filter(|file| file.is_secret).map(|file| file.name.as_str()).collect();
        assert_eq!(secret, ["dkim/example.com.s1.key"]);
        let advice = plan.advice(&answers(), "mail");
        for expected in [
            "\n  s1._domainkey.example.com. TXT \"v=DKIM1; k=rsa; p=",
            "\n  example.com. TXT \"v=spf1 ip4:192.0.2.1 ip6:2001:db8::1 ~all\"\n",
            "\n  kumod --policy /etc/mail/init.lua --user mail --validate\n",
        ] {
            assert!(advice.contains(expected), "{expected}: {advice}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_used_is_named() {
        let error = |answers: Answers| Plan::new(&answers).err().expect("refused").to_string();
        assert!(error(Answers { hostname: "a b".to_owned(), ..answers() }).starts_with("--hostname: `a b`"));
        assert!(error(Answers { clients: "10.0.0.1/8".to_owned(), ..answers() }).starts_with("--clients: "));
        for wrong in ["eth0", "0.0.0.0", "::"] {
            let error = error(Answers { sources: wrong.to_owned(), ..answers() });
            assert!(error.starts_with(&format!("--sources: `{wrong}`")), "{error}");
        }
        let twice = error(Answers { sources: "10.0.0.1, 10.0.0.1".to_owned(), ..answers() });
        assert_eq!(twice, "--sources: 10.0.0.1 is there twice");
        for wrong in ["nonsense", "127.0.0.1:99999", "25", "a'b:25", "[fe80::1%2]:25"] {
            let error = error(Answers { listen: wrong.to_owned(), ..answers() });
            assert!(error.starts_with("--listen: ") && error.contains("expected"), "{error}");
        }
        let same = error(Answers { http: "127.0.0.1:25".to_owned(), ..answers() });
        assert_eq!(same, "--http: 127.0.0.1:25 has the port of --listen 0.0.0.0:25: expected another");
        assert!(Plan::new(&Answers { http: "localhost:8000".to_owned(), ..answers() }).is_ok());
        assert!(error(Answers { logs: "logs".to_owned(), ..answers() }).starts_with("--logs: `logs`: expected an abs"));
        assert!(error(Answers { domains: "exämple.com".to_owned(), ..answers() }).starts_with("--domains: "));
        assert!(error(Answers { spool: "/a'b".to_owned(), ..answers() }).starts_with("--spool: `/a\\'b`"));
    }
}
