//! `postrider doctor`: what keeps mail from moving, and what helps.
//!
//! In: a command line, a policy if there is one. Out: findings on stdout, each that is not well with its fix. Exit code 0, 1 when
//! something is a problem, 2 when it could not be looked at.
//!
//! Facts are gathered at the edge (`host_facts`, `asking`, `dialogue`, and the files here), each with a bound of time, side by
//! side; what they mean is judged by pure functions (`host`, `names`, `ports`, `rights`, `certificate`). Nothing is changed: a
//! file without a name is written to time the disk, and servers out there are told EHLO and QUIT.

mod asking;
mod certificate;
mod dialogue;
mod finding;
mod host;
mod host_facts;
mod names;
mod ports;
mod rights;
mod subject;

use crate::output::{WELL, WRONG, causes, now, on_stdout, parsed};
use anyhow::Context;
use clap::Parser;
use config::{EsmtpListener, KeySource};
use finding::{Finding, Verdict};
use futures_util::future::join_all;
use net::dns::Hurried;
use nix::unistd::{Gid, User, geteuid, getgrouplist};
use policy::Startup;
use rights::{Owned, Place, Use, Who};
use route::Resolver;
use std::ffi::{CString, OsString};
use std::fs;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use subject::{Given, Subject};

/// Looks at port 25 both ways, PTR, SPF, DKIM, DMARC, TLS, clock, limits, disk and rights; each finding says what helps.
#[derive(Debug, Parser)]
#[command(name = "postrider doctor", version)]
pub struct Options {
    /// The policy: names, listeners, spool and keys are taken from it and from sources.toml and dkim.toml beside it.
    #[arg(long)]
    policy: Option<PathBuf>,
    /// What the server calls itself.
    #[arg(long)]
    hostname: Option<String>,
    /// An address it sends from, as others see it; may be given several times. Without: the policy's, or the system's choice.
    #[arg(long, value_name = "IP")]
    source: Vec<IpAddr>,
    /// A domain it sends for; may be given several times. Those of keys are known.
    #[arg(long)]
    domain: Vec<String>,
    /// Who it runs as; kumod, where there is one, unless given. Root reads a policy, and looks at everything else, as him.
    #[arg(long)]
    user: Option<String>,
    /// Where mail is kept, when there is no policy to say so.
    #[arg(long, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Whose server is tried to see whether port 25 is open outwards: a domain, or IP:PORT; may be given several times.
    #[arg(long, value_name = "DOMAIN", default_values = ["gmail.com", "outlook.com"])]
    reach: Vec<String>,
    /// Ask and reach nobody: only what this machine itself knows.
    #[arg(long)]
    offline: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

/// A server as it is configured, and whom it asks for names.
pub struct Configured {
    /// What its policy's `init` set; as by default without one.
    pub startup: Startup,
    /// What of the policy is doubtful.
    pub remarks: Vec<String>,
    /// Whom it asks.
    pub resolver: Arc<dyn Resolver>,
}

/// Reads a policy as that user, who root is from then on; or says how it is without one.
pub type Configure = fn(Option<&Path>, &str) -> anyhow::Result<Configured>;

/// `postrider doctor` on stdout.
///
/// # Errors
/// None: they are told on stderr. The shape is that of the program's other tools.
pub fn run(arguments: Vec<OsString>, configure: Configure) -> anyhow::Result<ExitCode> {
    Ok(on_stdout(|out| run_to(arguments, configure, out)))
}

/// `postrider doctor`, its findings to `out`; the exit code.
///
/// # Errors
/// A file beside the policy does not read; a user who is not there; no runtime.
pub fn run_to(arguments: Vec<OsString>, configure: Configure, out: &mut dyn Write) -> anyhow::Result<u8> {
    let options: Options = match parsed(arguments)? {
        Ok(options) => options,
        Err(code) => return Ok(code),
    };
    let who = who(options.user.as_deref())?;
    let (configured, mut findings) = of_policy(options.policy.as_deref(), &who.name, configure)?;
    let startup = &configured.startup;
    let given = Given {
        hostname: options.hostname.clone(),
        sources: options.source.clone(),
        domains: options.domain.iter().map(|domain| domain.trim_end_matches('.').to_ascii_lowercase()).collect(),
    };
    let machine = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let subject = Subject::new(given, startup, options.policy.as_deref().and_then(Path::parent), &machine)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    findings.extend(runtime.block_on(of_network(&options, &configured, &subject)));
    runtime.shutdown_background();
    findings.extend(of_certificates(startup, &subject));
    findings.push(host::clock(host_facts::clock()));
    findings.extend(host::limits(&host_facts::limits()));
    findings.extend(subject.bound.iter().map(|ip| host::source(*ip, &host_facts::begins_at(*ip))));
    let spools = spools(startup, options.spool.as_deref());
    findings.extend(spools.iter().flat_map(|folder| host::disk(&host_facts::disk(there(folder)))));
    findings.extend(places(&options, startup, &subject, &spools).iter().map(|place| rights::judge(place, &who)));
    match options.json {
        true => writeln!(out, "{}", finding::to_json(&findings))?,
        false => finding::print(&findings, out)?,
    }
    Ok(if findings.iter().any(|finding| finding.verdict == Verdict::Problem) { WRONG } else { WELL })
}

/// The server's user: as given, or KumoMTA's name for him, or who asks.
fn who(given: Option<&str>) -> anyhow::Result<Who> {
    let found = match given {
        Some(name) => Some(User::from_name(name)?.with_context(|| format!("--user {name}: there is no such user"))?),
        None => User::from_name("kumod").ok().flatten().or_else(|| User::from_uid(geteuid()).ok().flatten()),
    };
    let user = found.context("who asks has no name: give --user")?;
    let name = CString::new(user.name.as_str()).context("--user")?;
    let gids = getgrouplist(&name, user.gid).unwrap_or_default().into_iter().map(Gid::as_raw).collect();
    Ok(Who { name: user.name, uid: user.uid.as_raw(), gids })
}

/// The policy, and what is found of it; one that does not load is a finding, and everything else is looked at without it.
fn of_policy(file: Option<&Path>, user: &str, configure: Configure) -> anyhow::Result<(Configured, Vec<Finding>)> {
    let Some(file) = file else { return Ok((configure(None, user)?, Vec::new())) };
    let name = &file.display().to_string();
    match configure(Some(file), user) {
        Ok(configured) => {
            let doubtful = |remark: &String| {
                Finding::warning("policy", name, remark.as_str(), "`postrider check` shows what is set")
            };
            let mut findings: Vec<Finding> = configured.remarks.iter().map(doubtful).collect();
            if findings.is_empty() {
                findings.push(Finding::ok("policy", name, "sound"));
            }
            Ok((configured, findings))
        }
        Err(error) => {
            let finding =
                Finding::problem("policy", name, causes(&error), "correct it: nothing starts with it as it is");
            Ok((configure(None, user)?, vec![finding]))
        }
    }
}

/// DNS and ports. Everything is asked side by side, and all of it ends in time.
async fn of_network(options: &Options, configured: &Configured, subject: &Subject) -> Vec<Finding> {
    let mut findings = of_listeners(&configured.startup, subject).await;
    if options.offline {
        return findings;
    }
    let until = tokio::time::Instant::now() + NAMES_MAX;
    let resolver: Arc<dyn Resolver> = Arc::new(Hurried::new(configured.resolver.clone(), until, NAMES_MAX));
    let (resolver, host) = (&*resolver, &subject.hostname);
    let mut sources = subject.sources.clone();
    if sources.is_empty() {
        sources.extend(chosen_by_system().into_iter().map(|ip| (ip, host.clone())));
    }
    let reached = join_all(options.reach.iter().map(|domain| dialogue::reach(resolver, domain, host, WORD_MAX)));
    let named = join_all(sources.iter().map(|(ip, ehlo)| asking::source(resolver, *ip, ehlo)));
    let (domains, now_secs) = (&subject.domains, u64::try_from(now().unix_secs()).unwrap_or_default());
    let senders = domains.iter().flat_map(|domain| sources.keys().map(move |ip| (domain, *ip)));
    let senders = senders.filter(|(_, ip)| !names::is_private(*ip));
    let spf = join_all(senders.map(|(domain, ip)| asking::spf(resolver, domain, ip, host, now_secs)));
    let keys = join_all(subject.keys.iter().map(|key| asking::key(resolver, key)));
    let dmarc = join_all(domains.iter().map(|domain| asking::dmarc(resolver, domain)));
    let exchangers = join_all(domains.iter().map(|domain| asking::exchangers(resolver, domain)));
    let (reached, named, own, spf, keys, dmarc, exchangers) =
        tokio::join!(reached, named, asking::host(resolver, host), spf, keys, dmarc, exchangers);
    findings.extend(ports::out(&reached));
    if let Ok(addresses) = &own.addresses
        && let Some(ip) = addresses.iter().find(|ip| !names::is_private(**ip))
        && findings.iter().any(|finding| finding.check == "port in" && finding.verdict == Verdict::Ok)
    {
        let said = dialogue::greet(SocketAddr::new(*ip, 25), host, WORD_MAX).await;
        findings.push(ports::public(&ports::Public { address: ip.to_string(), said }));
    }
    findings.push(names::host(&own));
    findings.extend(named.iter().map(names::source));
    findings.extend(spf.iter().map(names::spf));
    findings.extend(keys.iter().map(names::key));
    findings.extend(dmarc.iter().map(names::dmarc));
    findings.extend(exchangers.iter().map(names::exchangers));
    findings
}

/// Our own listeners.
async fn of_listeners(startup: &Startup, subject: &Subject) -> Vec<Finding> {
    let address = |listener: &EsmtpListener| {
        let hostname = listener.params.hostname.clone().unwrap_or_else(|| subject.hostname.clone());
        Some((listener.listen.socket_addr()?, hostname))
    };
    let listeners: Vec<_> = startup.esmtp_listeners.iter().filter_map(address).collect();
    let found =
        join_all(listeners.iter().map(|(listen, hostname)| dialogue::listener(*listen, hostname, WORD_MAX))).await;
    found.iter().map(ports::listener).collect()
}

/// The address that the system sends from: nothing is sent to find out.
fn chosen_by_system() -> Vec<IpAddr> {
    let chosen = |own: &str, other: &str| {
        let socket = UdpSocket::bind(own).ok()?;
        socket.connect(other).ok()?;
        socket.local_addr().ok().map(|address| address.ip())
    };
    // Addresses for documents, routed as any other is.
    [chosen("0.0.0.0:0", "192.0.2.1:25"), chosen("[::]:0", "[2001:db8::1]:25")].into_iter().flatten().collect()
}

fn of_certificates(startup: &Startup, subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for listener in &startup.esmtp_listeners {
        let listen = listener.listen.to_string();
        let hostname = listener.params.hostname.as_deref().unwrap_or(&subject.hostname);
        let now_secs = now().unix_secs();
        match &listener.params.tls_certificate {
            // The policy's remarks have it.
            None => {}
            Some(KeySource::File(path)) => {
                let pem = fs::read(path).map_err(|error| format!("{path}: {error}"));
                findings.push(certificate::judge(&listen, &pem, hostname, now_secs));
            }
            Some(KeySource::Data(pem)) => {
                findings.push(certificate::judge(&listen, &Ok(pem.clone()), hostname, now_secs))
            }
            // Whoever keeps it shows it to the server alone.
            Some(KeySource::Vault { .. } | KeySource::Event { .. }) => {}
        }
    }
    findings
}

/// The folders of spools.
fn spools(startup: &Startup, given: Option<&Path>) -> Vec<PathBuf> {
    let of_policy = startup.spools.iter().filter(|spool| spool.name != "meta").map(|spool| spool.path.clone());
    let mut folders: Vec<PathBuf> = given.map(Path::to_owned).into_iter().chain(of_policy).collect();
    folders.sort();
    folders.dedup();
    folders
}

/// What is there of a path: before the first start that is what is above it.
fn there(path: &Path) -> &Path {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(path)
}

/// What the server's user must be able to read and write.
fn places(options: &Options, startup: &Startup, subject: &Subject, spools: &[PathBuf]) -> Vec<Place> {
    let mut places = Vec::new();
    places.extend(options.policy.iter().map(|path| place(path, Use::Read)));
    places.extend(spools.iter().map(|path| place(path, Use::Folder)));
    places.extend(startup.local_logs.iter().map(|logs| place(&logs.log_dir, Use::Folder)));
    places.extend(subject.keys.iter().filter_map(|key| key.file.as_deref()).map(|path| place(path, Use::Secret)));
    for listener in &startup.esmtp_listeners {
        let private = listener.params.tls_private_key.as_ref();
        places.extend(
            private
                .and_then(|key| if let KeySource::File(path) = key { Some(path) } else { None })
                .map(|path| place(Path::new(path), Use::Secret)),
        );
    }
    places
}

fn place(path: &Path, usage: Use) -> Place {
    let owned = |path: &Path| fs::metadata(path).map(|at| Owned { uid: at.uid(), gid: at.gid(), mode: at.mode() });
    let whole = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned());
    let above = whole.ancestors().skip(1).filter_map(|above| Some((above.display().to_string(), owned(above).ok()?)));
    let mut above: Vec<_> = above.collect();
    above.reverse();
    let own = owned(&whole).map_err(|error| error.to_string());
    Place { path: path.display().to_string(), usage, above, own }
}

/// All questions to DNS together.
const NAMES_MAX: Duration = Duration::from_secs(15);
/// Each server that is spoken to.
const WORD_MAX: Duration = Duration::from_secs(8);
