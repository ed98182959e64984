//! The helpers under `policy-extras`: what they read, what they answer, and what they say of mistakes.

use crate::support::{assert_has, draft_of, file};
use config::{EgressPool, EgressSource, ListenerDomain, QueueConfig};
use lua::{LoadError, LuaPolicy};
use message::Draft;
use policy::{ConnMeta, Event, Policy, PolicyError, QueueParts};
use std::future::Future;
use std::path::Path;
use tempfile::TempDir;

/// A policy of a few files, in a folder that it knows as `folder`.
struct Site {
    policy: LuaPolicy,
    runtime: tokio::runtime::Runtime,
    folder: TempDir,
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("scratch folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn script(folder: &Path, text: &str) -> String {
    // Nobody's network is asked.
    const NOBODY: &str = "kumo.dns.configure_test_resolver { '$ORIGIN nobody.test.' }";
    format!("local kumo = require 'kumo' {NOBODY} local folder = [[{}]] {text}", folder.display())
}

impl Site {
    fn new(files: &[(&str, &str)], text: &str) -> Site {
        let folder = folder(files);
        let (_own, path) = file(&script(folder.path(), text));
        let (policy, _) = LuaPolicy::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        Site { policy, runtime, folder }
    }

    fn ask<T>(&self, answer: impl Future<Output = Result<T, PolicyError>>) -> Result<T, String> {
        self.runtime.block_on(answer).map_err(|e| e.to_string())
    }

    fn source(&self, name: &str) -> Result<EgressSource, String> {
        self.ask(self.policy.get_egress_source(name.to_owned()))
    }

    fn pool(&self, name: &str) -> Result<EgressPool, String> {
        self.ask(self.policy.get_egress_pool(name.to_owned()))
    }

    fn queue(&self, domain: &str, tenant: Option<&str>, campaign: Option<&str>) -> Result<QueueConfig, String> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let parts = QueueParts {
            domain: domain.to_owned(),
            tenant: owned(tenant),
            campaign: owned(campaign),
            routing_domain: None,
        };
        self.ask(self.policy.get_queue_config(parts))
    }

    fn domain(&self, name: &str, conn: &ConnMeta) -> Result<Option<ListenerDomain>, String> {
        let listener = "127.0.0.1:25".parse().expect("an address");
        self.ask(self.policy.get_listener_domain(name.to_owned(), listener, conn.clone()))
    }

    fn received(&self, header: &str, conn: &ConnMeta) -> Result<Draft, String> {
        let draft = draft_of(format!("{header}\r\nbody\r\n").as_bytes());
        self.ask(self.policy.smtp_server_message_received(draft, conn.clone()))
    }
}

/// What `--validate` says of a policy of these files; `None` when it has nothing to say.
fn judged(files: &[(&str, &str)], text: &str) -> Option<LoadError> {
    let folder = folder(files);
    let (_own, path) = file(&script(folder.path(), text));
    LuaPolicy::validate(&path).err()
}

/// Once, with its values; only of what one table says, and nothing of what handlers make.
#[test]
fn validation_tells_of_options_that_contradict_one_another() {
    let queues = "[queue.default]\nretry_interval = \"1m\"\nmax_retry_interval = \"10m\"\n\
        [queue.\"sound.test\"]\nmax_age = \"15m\"\n\
        [queue.\"a.test\"]\nretry_interval = \"1h\"\nmax_retry_interval = \"20m\"\n";
    let folder = folder(&[("queues.toml", queues)]);
    let text = "kumo.make_egress_path { connection_limit = 9, max_ready = 5 } \
        kumo.on('init', function() kumo.make_egress_path { connection_limit = 9, max_ready = 5 } kumo.make_egress_path { max_ready = 5 } \
          kumo.make_egress_path(kumo.make_egress_path { connection_limit = 9, max_ready = 5 }) end) \
        kumo.on('get_queue_config', function() return kumo.make_queue_config { retry_interval = '1h', max_age = '1s' } end) \
        require('policy-extras.queue'):setup_with_options { \
          skip_queue_config_hook = true, file_names = { folder .. '/queues.toml' } }";
    let (_own, path) = file(&script(folder.path(), text));
    let (_, said) = LuaPolicy::validate(&path).expect("sound");
    let about = |function: &str| said.iter().filter(|line| line.starts_with(function)).collect::<Vec<_>>();
    let path =
        "kumo.make_egress_path: connection_limit 9 is more than max_ready 5: no more than 5 connections get a message";
    assert_eq!(about("kumo.make_egress_path"), [path]);
    let queue = "kumo.make_queue_config: retry_interval 1h is longer than max_retry_interval 20m: each wait is 20m";
    assert_eq!(about("kumo.make_queue_config"), [queue]);
}

const SOURCES: &str = "[source.\"ip-1\"]\nehlo_domain = \"one.test\"\n[source.\"ip-2\"]\n\
    [pool.\"p\".\"ip-1\"]\nweight = 3\n[pool.\"p\".\"ip-2\"]\n";

#[test]
fn sources_and_pools_come_from_files_in_order() {
    let more = "{\"source\": {\"ip-1\": {\"ttl\": \"7s\"}}, \"pool\": {\"q\": {\"ip-2\": {}}}}";
    let site = Site::new(
        &[("a.toml", SOURCES), ("b.json", more)],
        "require('policy-extras.sources'):setup { folder .. '/a.toml', folder .. '/b.json' }",
    );
    let one = site.source("ip-1").expect("there");
    assert_eq!((one.name.as_str(), one.ehlo_domain.as_deref()), ("ip-1", Some("one.test")));
    assert_eq!(one.ttl.as_secs(), 7);
    let pool = site.pool("p").expect("there");
    let entries: Vec<(&str, u32)> = pool.entries.iter().map(|e| (e.name.as_str(), e.weight)).collect();
    assert_eq!(entries, [("ip-1", 3), ("ip-2", 1)]);
    assert_eq!(site.pool("q").expect("there").entries.len(), 1);
    assert_has(&site.source("ip-9").expect_err("unknown"), &["source `ip-9` is not defined"]);
    assert_has(&site.pool("r").expect_err("unknown"), &["pool `r` is not defined"]);
}

#[test]
fn wrong_sources_do_not_pass_validation() {
    const SETUP: &str = "require('policy-extras.sources'):setup { folder .. '/a.toml' }";
    assert!(judged(&[("a.toml", SOURCES)], SETUP).is_none());
    for wrong in [
        "[pool.\"p\".\"ip-3\"]\n",
        "[source.\"ip-1\"]\n[pool.\"p\".\"ip-1\"]\nwieght = 3\n",
        "[source.\"ip-1\"]\nsource_adress = \"192.0.2.1\"\n",
        "[sources.\"ip-1\"]\n",
        "[source.\"ip-1\"]\nttl = -1\n",
    ] {
        assert!(matches!(judged(&[("a.toml", wrong)], SETUP), Some(LoadError::Invalid { .. })), "{wrong}");
    }
    assert!(matches!(judged(&[], SETUP), Some(LoadError::Invalid { .. })), "no file");
    let twice = judged(&[("a.toml", SOURCES)], &format!("{SETUP} {SETUP}")).expect("refused").to_string();
    assert_has(&twice, &["policy-extras.sources module has already been configured"]);
}

const DOMAINS: &str = "[\"partner.test\"]\nrelay_to = true\n[\"*.partner.test\"]\nlog_oob = true\n\
    [\"auth.test\"]\nrelay_from_authz = [\"ann\"]\n[\"*\"]\nrelay_from = [\"10.0.0.0/8\"]\n\
    [listener.\"127.0.0.1:25\".\"own.test\"]\nrelay_to = true\n";

#[test]
fn listener_domains_know_wildcards_listeners_and_who_authenticated() {
    let site = Site::new(
        &[("a.toml", DOMAINS)],
        "kumo.on('get_listener_domain', require('policy-extras.listener_domains'):setup { folder .. '/a.toml' })",
    );
    let conn = ConnMeta::new();
    let of = |name: &str| site.domain(name, &conn).expect("sound").expect("some");
    assert!(of("Partner.test").relay_to && !of("x.partner.test").relay_to && of("own.test").relay_to);
    assert!(of("x.partner.test").log_oob != of("partner.test").log_oob);
    assert!(of("other.test").relay_from.contains("10.1.2.3".parse().expect("an address")));
    let here = "192.0.2.7".parse().expect("an address");
    assert!(!of("auth.test").relay_from.contains(here));
    conn.set("authz_id", "ann");
    conn.set("received_from", "192.0.2.7:4000");
    assert!(of("auth.test").relay_from.contains(here), "who may, from where they are");
    conn.set("authz_id", "bob");
    assert!(!of("auth.test").relay_from.contains(here));
}

#[test]
fn wrong_listener_domains_do_not_pass_validation() {
    const SETUP: &str = "require('policy-extras.listener_domains'):setup { folder .. '/a.toml' }";
    assert!(judged(&[("a.toml", DOMAINS)], SETUP).is_none());
    for wrong in [
        "[\"a.test\"]\nrelay = true\n",
        "[\"a.test\"]\nrelay_from = [\"10.0.0.1/8\"]\n",
        "[\"a.test\"]\nrelay_from_authz = \"ann\"\n",
    ] {
        assert!(matches!(judged(&[("a.toml", wrong)], SETUP), Some(LoadError::Invalid { .. })), "{wrong}");
    }
}

const QUEUES: &str = "scheduling_header = \"X-Schedule\"\ntenant_header = \"X-Tenant\"\nremove_tenant_header = true\n\
    campaign_header = \"X-Campaign\"\ndefault_tenant = \"acme\"\n\
    [tenant.\"acme\"]\nmax_message_rate = \"10/s\"\n[tenant.\"safe\"]\nrequire_authz = [\"ann\"]\n\
    [queue.default]\nretry_interval = \"10m\"\nmax_age = \"2 days\"\n\
    [queue.\"vip.test\"]\nmax_age = \"1 day\"\nrouting_domain = \"mx.vip.test\"\n\
    [queue.\"vip.test\".\"acme\"]\nretry_interval = \"1m\"\n[queue.\"vip.test\".\"acme\".\"news\"]\nretry_interval = \"5m\"\n\
    [queue.\"*.wild.test\"]\nretry_interval = \"3m\"\n";
const QUEUE_SETUP: &str = "local queues = require('policy-extras.queue'):setup { folder .. '/q.toml' } \
    kumo.on('smtp_server_message_received', function(msg) queues:apply(msg) end)";

#[test]
fn the_more_specific_block_of_a_queue_wins() {
    let site = Site::new(&[("q.toml", QUEUES)], QUEUE_SETUP);
    let minutes =
        |domain, tenant, campaign| site.queue(domain, tenant, campaign).expect("sound").retry_interval.as_secs() / 60;
    assert_eq!(minutes("a.test", None, None), 10);
    assert_eq!(minutes("vip.test", None, None), 10);
    assert_eq!(minutes("VIP.test", Some("acme"), None), 1);
    assert_eq!(minutes("vip.test", Some("acme"), Some("news")), 5);
    assert_eq!(minutes("vip.test", Some("acme"), Some("other")), 1);
    assert_eq!(minutes("vip.test", Some("safe"), Some("news")), 10);
    assert_eq!(minutes("x.wild.test", Some("acme"), None), 3);
    let acme = site.queue("vip.test", Some("acme"), None).expect("sound");
    assert_eq!(acme.max_age.as_secs(), 86_400);
    assert!(acme.max_message_rate.is_some(), "the tenant's");
}

#[test]
fn what_a_queue_comes_to_can_be_asked() {
    let text = format!(
        "{} kumo.on('smtp_server_message_received', function(msg) \
            local p = queues:resolve_config('vip.test', 'acme', 'news') \
            assert(p.retry_interval == '5m' and p.max_age == '1 day' and p.routing_domain == 'mx.vip.test' and p.refresh_strategy == 'Epoch') end)",
        QUEUE_SETUP.split("kumo.on").next().unwrap_or_default()
    );
    Site::new(&[("q.toml", QUEUES)], &text).received("", &ConnMeta::new()).expect("sound");
}

#[test]
fn a_message_says_whose_it_is() {
    let site = Site::new(&[("q.toml", QUEUES)], QUEUE_SETUP);
    let conn = ConnMeta::new();
    let mut draft = site
        .received(
            "X-Tenant: acme\r\nX-Campaign: c1\r\nX-Schedule: {\"first_attempt\": \"2040-01-01T00:00:00Z\"}\r\n",
            &conn,
        )
        .expect("sound");
    assert_eq!(draft.meta.string("tenant"), Ok(Some("acme")));
    assert_eq!(draft.meta.string("campaign"), Ok(Some("c1")));
    let head = String::from_utf8_lossy(&draft.data()).into_owned();
    assert!(!head.contains("X-Tenant") && head.contains("X-Campaign") && !head.contains("X-Schedule"), "{head}");
    let removing = Site::new(&[("q.toml", &format!("remove_campaign_header = true\n{QUEUES}"))], QUEUE_SETUP);
    let mut without = removing.received("X-Campaign: c1\r\n", &conn).expect("sound");
    assert_eq!(without.meta.string("campaign"), Ok(Some("c1")));
    assert!(without.headers().first_value("X-Campaign").is_none());
    let default = site.received("Subject: x\r\n", &conn).expect("sound");
    assert_eq!(default.meta.string("tenant"), Ok(Some("acme")));
    assert_has(
        &site.received("X-Tenant: none\r\n", &conn).expect_err("unknown"),
        &["500", "'none'", "X-Tenant", "not defined"],
    );
    assert_has(&site.received("X-Tenant: safe\r\n", &conn).expect_err("nobody"), &["500", "requires SMTP AUTH"]);
    conn.set("authz_id", "bob");
    let conn_of_draft = |conn: &ConnMeta| {
        let mut draft = draft_of(b"X-Tenant: safe\r\n\r\n");
        draft.meta = conn.snapshot();
        site.ask(site.policy.smtp_server_message_received(draft, conn.clone()))
    };
    assert_has(&conn_of_draft(&conn).expect_err("another"), &["500", "not authorized"]);
    conn.set("authz_id", "ann");
    assert_eq!(conn_of_draft(&conn).expect("she may").meta.string("tenant"), Ok(Some("safe")));
}

#[test]
fn tenants_and_campaigns_have_rates_of_their_own() {
    const RATES: &str = "[tenant.\"acme\"]\noverall_max_message_rate = \"3/h\"\n\
        [tenant.\"acme\".campaigns.\"news\"]\noverall_max_message_rate = \"1/h\"\n[tenant.\"free\"]\n";
    let site = Site::new(&[("q.toml", RATES)], "require('policy-extras.queue'):setup { folder .. '/q.toml' }");
    let passes = |tenant: &str, campaign: Option<&str>| {
        let mut draft = draft_of(b"Subject: x\r\n\r\n");
        draft.meta.set("tenant", tenant);
        campaign.into_iter().for_each(|campaign| draft.meta.set("campaign", campaign));
        let was = draft.due;
        site.ask(site.policy.throttle_insert_ready_queue(draft)).expect("sound").due == was
    };
    assert!(passes("acme", Some("news")));
    assert!(!passes("acme", Some("news")), "one of that campaign an hour");
    assert!(passes("acme", None) && passes("acme", None), "what the campaign's rate put off has not used the tenant's");
    assert!(!passes("acme", None), "three of that tenant an hour, those of campaigns among them");
    assert!((0..10).all(|_| passes("free", None)), "who has no rate is not held");
}

/// A question about each message that leaves is asked only where there is something to ask.
#[test]
fn rates_are_asked_about_from_the_reading_on_that_has_some() {
    let folder = folder(&[("q.toml", "[tenant.\"acme\"]\n")]);
    let text = "require('policy-extras.queue'):setup { folder .. '/q.toml' }";
    let (_own, path) = file(&script(folder.path(), text));
    let (policy, _) = LuaPolicy::load(&path).expect("sound");
    let asks = || policy.interest().has(Event::ThrottleInsertReadyQueue);
    assert!(!asks());
    let with_rate = "[tenant.\"acme\"]\noverall_max_message_rate = \"3/h\"\n";
    std::fs::write(folder.path().join("q.toml"), with_rate).expect("written");
    policy.reload(&mut |_, _| Ok(())).expect("sound");
    assert!(asks());
}

#[test]
fn the_provider_of_a_queue_is_that_of_its_path() {
    const SHAPING: &str = "[provider.\"big\"]\nmatch = [ { MXSuffix = \".big.test.\" } ]\n";
    let site = Site::new(
        &[("q.toml", ""), ("s.toml", SHAPING)],
        // DNS is asked in testing/e2e/tests/lookups.rs; here it is what the script makes it.
        "kumo.dns.lookup_mx = function(domain) return { site_name = domain == 'a.test' and 'mx.big.test.' or 'mx.other.test.' } end \
         local shaping = require 'policy-extras.shaping' local queue = require 'policy-extras.queue' \
         local shaper = shaping:setup_with_automation { no_default_files = true, extra_files = { folder .. '/s.toml' } } \
         kumo.on('get_egress_path_config', shaper.get_egress_path_config) \
         queue:setup { folder .. '/q.toml' } \
         kumo.on('smtp_server_message_received', function(msg) \
           msg:set_meta('of_a', queue:resolve_provider('a.test') or 'none') \
           msg:set_meta('of_b', queue:resolve_provider('b.test') or 'none') end)",
    );
    let draft = site.received("", &ConnMeta::new()).expect("sound");
    assert_eq!((draft.meta.string("of_a"), draft.meta.string("of_b")), (Ok(Some("big")), Ok(Some("none"))));
    assert_eq!(site.queue("a.test", None, None).expect("sound").provider_name.as_deref(), Some("big"));
}

#[test]
fn a_tenant_that_asks_for_nobody_is_open() {
    let queues = QUEUES.replace("require_authz = [\"ann\"]", "require_authz = false");
    let site = Site::new(&[("q.toml", &queues)], QUEUE_SETUP);
    let draft = site.received("X-Tenant: safe\r\n", &ConnMeta::new()).expect("sound");
    assert_eq!(draft.meta.string("tenant"), Ok(Some("safe")));
}

#[test]
fn mail_is_routed_where_its_queue_says() {
    let queues = QUEUES.replace("vip.test", "to.test");
    let site = Site::new(&[("q.toml", &queues)], QUEUE_SETUP);
    let draft = site.received("Subject: x\r\n", &ConnMeta::new()).expect("sound");
    assert_eq!(draft.meta.string("routing_domain"), Ok(Some("mx.to.test")));
}

#[test]
fn wrong_queues_do_not_pass_validation() {
    assert!(judged(&[("q.toml", QUEUES)], QUEUE_SETUP).is_none());
    for wrong in [
        "[queue.default]\nretry_intervall = \"1m\"\n",
        "[queue.\"a.test\"]\nmax_age = \"soon\"\n",
        "[queue.\"a.test\".\"nobody\"]\nmax_age = \"1m\"\n",
        "[tenant.\"a\"]\nmax_agee = \"1m\"\n",
        "[tenant.\"a\"]\noverall_max_message_rate = \"many\"\n",
        "[tenant.\"a\".campaigns.\"c\"]\noverall_max_message_rate = \"200/fortnight\"\n",
        "[tenant.\"a\".campaigns.\"c\"]\noverall_max_mesage_rate = \"200/min\"\n",
        "[tenant.\"a\".campaigns]\nc = \"200/min\"\n",
        "[tenant.\"a\"]\ncampaigns = \"200/min\"\n",
        "tenant_haeder = \"X\"\n",
        "default_tenant = \"a\"\n",
        "[queue.default]\negress_pool = \"nowhere\"\n",
    ] {
        assert!(matches!(judged(&[("q.toml", wrong)], QUEUE_SETUP), Some(LoadError::Invalid { .. })), "{wrong}");
    }
    let behind = format!("{QUEUE_SETUP} kumo.on('get_queue_config', function() end)");
    assert!(matches!(judged(&[("q.toml", QUEUES)], &behind), Some(LoadError::Invalid { .. })), "a handler nobody asks");
}

#[test]
fn signatures_follow_the_from_header() {
    let toml = "[base]\nselector = \"s1\"\nheaders = [\"From\", \"Subject\"]\nadditional_signatures = [\"all\", \"rest\"]\n\
        [domain.\"from.test\"]\nfilename = \"KEY\"\nselector = \"s2\"\nalgo = \"ed25519\"\n\
        [signature.\"all\"]\ndomain = \"esp.test\"\nfilename = \"KEY\"\npolicy = \"Always\"\n\
        [signature.\"rest\"]\ndomain = \"rest.test\"\nfilename = \"KEY\"\npolicy = \"OnlyIfMissingDomainBlock\"\n";
    const SETUP: &str = "local sign = require('policy-extras.dkim_sign'):setup { folder .. '/d.toml' } \
        kumo.on('smtp_server_message_received', function(msg) sign(msg) end)";
    let site = Site::new(&[("key.pem", KEY)], SETUP);
    let key = site.folder.path().join("key.pem");
    std::fs::write(site.folder.path().join("d.toml"), toml.replace("KEY", &key.display().to_string())).expect("a file");
    let signed_by = |from: &str| {
        let mut draft = site.received(&format!("From: <a@{from}>\r\nSubject: x\r\n"), &ConnMeta::new()).expect("sound");
        let fields = draft.headers().all_values("DKIM-Signature");
        let mut found: Vec<String> = fields
            .iter()
            .flat_map(|field| field.split(';').filter_map(|tag| tag.trim().strip_prefix("d=").map(str::to_owned)))
            .collect();
        found.sort();
        found
    };
    assert_eq!(signed_by("From.test"), ["esp.test", "from.test"]);
    assert_eq!(signed_by("other.test"), ["esp.test", "rest.test"]);
    for header in ["Subject: x\r\n", "From: nobody at all\r\n", "From: group:;\r\n"] {
        assert_has(&site.received(header, &ConnMeta::new()).expect_err("no author"), &["552 5.6.0"]);
    }
    assert_eq!(signed_by("from.test>, <b@other.test"), ["esp.test", "from.test"]);
    for wrong in [
        "[base]\nselektor = \"s\"\n",
        "[domain.\"a.test\"]\nfilename = \"/none.pem\"\nselector = \"s\"\nheaders = [\"From\"]\n",
        "[base]\nadditional_signatures = [\"x\"]\n",
        "[signature.\"a\"]\ndomain = \"a.test\"\nfilename = \"KEY\"\npolicy = \"OnlyIfMissingDomainBlok\"\n",
        "[signature.\"a\"]\ndomain = \"a.test\"\nfilename = \"KEY\"\nalgo = \"Ed25519\"\n",
    ] {
        let wrong = wrong.replace("KEY", &key.display().to_string());
        let wrong = wrong.as_str();
        assert!(matches!(judged(&[("d.toml", wrong)], SETUP), Some(LoadError::Invalid { .. })), "{wrong}");
    }
}

/// Both keys of a block are looked at before they are needed, as far as the file says where they are.
#[test]
fn keys_of_both_kinds_are_validated() {
    const SETUP: &str = "local sign = require('policy-extras.dkim_sign'):setup { folder .. '/d.toml' } \
        kumo.on('smtp_server_message_received', function(msg) sign(msg) end)";
    let folder = folder(&[("key.pem", KEY)]);
    let key = folder.path().join("key.pem").display().to_string();
    let judge = |base: &str, block: &str| {
        let text = format!("[base]\nselector = \"s\"\nheaders = [\"From\"]\n{base}\n{block}\n").replace("KEY", &key);
        judged(&[("d.toml", &text)], SETUP)
    };
    let both = "filename = \"KEY\"\ned25519_filename = \"KEY\"";
    for (base, block) in [
        ("dual = true", format!("[domain.\"a.test\"]\n{both}")),
        ("dual = true", format!("[domain.\"*.a.test\"]\n{both}")),
        // Their keys are where each message's domain says.
        ("dual = true", "[domain.\"*.a.test\"]\nfilename = \"KEY\"".to_owned()),
        ("dual = true", "[domain.\"*.a.test\"]\ned25519_filename = \"KEY\"".to_owned()),
        ("dual = true", "[domain.\"*.a.test\"]".to_owned()),
        // What base says is for blocks with an RSA key.
        ("dual = true", "[domain.\"a.test\"]\nalgo = \"ed25519\"\nfilename = \"KEY\"".to_owned()),
        ("", "[domain.\"*.a.test\"]\ned25519_filename = \"/none.pem\"".to_owned()),
    ] {
        assert!(judge(base, &block).is_none(), "{block}");
    }
    for (base, block) in [
        ("dual = true", "[domain.\"a.test\"]\nfilename = \"KEY\""),
        ("dual = true", "[domain.\"*.a.test\"]\nfilename = \"/none.pem\""),
        ("dual = true", "[domain.\"*.a.test\"]\ned25519_filename = \"/none.pem\""),
        ("dual = true", "[domain.\"*.a.test\"]\nfilename = \"KEY\"\ned25519_filename = \"/none.pem\""),
        ("", "[domain.\"*.a.test\"]\nfilename = \"/none.pem\""),
        // Which key is it?
        ("", "[domain.\"a.test\"]\nalgo = \"ed25519\"\ndual = true\nfilename = \"KEY\""),
    ] {
        assert!(matches!(judge(base, block), Some(LoadError::Invalid { .. })), "{block}");
    }
}

#[test]
fn a_signature_is_what_its_file_says() {
    let base = "[base]\nselector = \"s1\"\nheaders = [\"From\", \"Subject\"]\nexpiration = 3600\nover_sign = true\n\
        header_canonicalization = \"Simple\"\nbody_canonicalization = \"Simple\"\n[domain.\"from.test\"]\nfilename = \"KEY\"\n";
    let site = Site::new(
        &[("key.pem", KEY)],
        "local sign = require('policy-extras.dkim_sign'):setup { folder .. '/d.toml' } \
         kumo.on('smtp_server_message_received', function(msg) sign(msg) end)",
    );
    let key = site.folder.path().join("key.pem");
    std::fs::write(site.folder.path().join("d.toml"), base.replace("KEY", &key.display().to_string())).expect("a file");
    let mut draft = site.received("From: <a@from.test>\r\nSubject: x\r\n", &ConnMeta::new()).expect("sound");
    let field = draft.headers().first_value("DKIM-Signature").expect("signed");
    let tags: std::collections::BTreeMap<&str, String> = field
        .split(';')
        .filter_map(|tag| tag.trim().split_once('='))
        .map(|(name, value)| (name, value.replace(' ', "")))
        .collect();
    assert_eq!((&*tags["s"], &*tags["c"]), ("s1", "simple/simple"));
    assert_eq!(tags["h"].to_lowercase(), "from:from:subject:subject");
    let [from, until] = ["t", "x"].map(|tag| tags[tag].parse::<u64>().expect("a time"));
    assert_eq!(until - from, 3600);
}

#[test]
fn paths_come_from_shaping_files_and_are_checked() {
    const SETUP: &str = "local shaping = require 'policy-extras.shaping' \
        local shaper = shaping:setup_with_automation { no_default_files = true, extra_files = { folder .. '/s.toml' } } \
        kumo.on('get_egress_path_config', shaper.get_egress_path_config) kumo.on('init', function() shaper.setup_publish() end)";
    let good = "[\"default\"]\nconnection_limit = 10\n[\"one.test\"]\nmx_rollup = false\nconnection_limit = 3\n";
    let site = Site::new(&[("s.toml", good)], SETUP);
    let limit = |domain: &str| {
        let path = site.ask(site.policy.get_egress_path_config(domain.to_owned(), "ip-1".to_owned(), "mx".to_owned()));
        path.expect("sound").connection_limit.limit
    };
    assert_eq!((limit("one.test"), limit("two.test")), (3, 10));
    assert!(judged(&[("s.toml", good)], SETUP).is_none());
    for wrong in [
        "[\"default\"]\nconection_limit = 10\n",
        "[\"one.test\"]\nmx_rollup = false\n[\"one.test\".sources.\"ip-9\"]\nconnection_limit = 1\n",
        "[\"rolled.test\".sources.\"ip-9\"]\nconnection_limit = 1\n",
    ] {
        assert!(matches!(judged(&[("s.toml", wrong)], SETUP), Some(LoadError::Invalid { .. })), "{wrong}");
    }
    // Without a file there is the one that is carried along.
    let own = Site::new(&[], "kumo.on('get_egress_path_config', require('policy-extras.shaping'):setup())");
    let path = own.ask(own.policy.get_egress_path_config(
        "gmail.com".to_owned(),
        "ip-1".to_owned(),
        "(alt1|alt2).gmail-smtp-in.l.google.com".to_owned(),
    ));
    assert_eq!(path.expect("sound").provider_name.as_deref(), Some("google"));
    let unknown =
        judged(&[], "require('policy-extras.shaping'):setup_with_automation { publich = {} }").expect("refused");
    assert_has(&unknown.to_string(), &["unknown option `publich`", "(did you mean `publish`?)"]);
}

/// As KumoMTA's pages provision pools: handlers return what is in a table that is memoized.
#[test]
fn what_make_functions_made_is_the_same_when_it_was_memoized() {
    let site = Site::new(
        &[],
        "local made = kumo.memoize(function() return { \
           q = kumo.make_queue_config { egress_pool = 'p' }, pools = { kumo.make_egress_pool { name = 'p', entries = { { name = 's' } } } }, \
           s = kumo.make_egress_source { name = 's', ehlo_domain = 'e.test' }, path = kumo.make_egress_path { connection_limit = 7 } } \
         end, { name = 'made', ttl = '1 hour', capacity = 1 }) \
         kumo.on('get_queue_config', function() return made().q end) kumo.on('get_egress_pool', function() return made().pools[1] end) \
         kumo.on('get_egress_source', function() return made().s end) kumo.on('get_egress_path_config', function() return made().path end)",
    );
    let text = |text: &str| text.to_owned();
    // Made, and then as it was kept.
    for _ in 0..2 {
        assert_eq!(site.queue("d.test", None, None).expect("sound").egress_pool(), "p");
        assert_eq!(site.ask(site.policy.get_egress_pool(text("p"))).expect("sound").entries[0].name, "s");
        let source = site.ask(site.policy.get_egress_source(text("s"))).expect("sound");
        assert_eq!(source.ehlo_domain.as_deref(), Some("e.test"));
        let path = site.ask(site.policy.get_egress_path_config(text("d"), text("s"), text("x"))).expect("sound");
        assert_eq!(path.connection_limit.limit, 7);
    }
}

#[test]
fn records_for_a_daemon_do_not_wait_for_the_rates_of_others() {
    const SHAPING: &str = "[\"default\"]\nconnection_limit = 7\nmax_message_rate = \"100/s\"\nmax_connection_rate = \"9/min\"\n\
        max_deliveries_per_connection = 5\n[\"http://127.0.0.1:1.tsa.kumomta\"]\nmx_rollup = false\nmax_connection_rate = \"3/min\"\n";
    let site = Site::new(
        &[("s.toml", SHAPING)],
        "local shaper = require('policy-extras.shaping'):setup_with_automation { no_default_files = true, \
           extra_files = { folder .. '/s.toml' }, publish = { 'http://127.0.0.1:1' } } \
         kumo.on('get_egress_path_config', shaper.get_egress_path_config)",
    );
    let path = |domain: &str| {
        let path =
            site.ask(site.policy.get_egress_path_config(domain.to_owned(), "ip-1".to_owned(), domain.to_owned()));
        let path = path.expect("sound");
        let rate = |rate: Option<config::ThrottleSpec>| rate.map(|rate| (rate.limit, rate.period_s));
        let messages = path.max_deliveries_per_connection;
        (path.connection_limit.limit, rate(path.max_message_rate), rate(path.max_connection_rate), messages)
    };
    assert_eq!(path("other.test"), (7, Some((100, 1)), Some((9, 60)), 5));
    let of_daemon = path("http://127.0.0.1:1.tsa.kumomta");
    assert_eq!((of_daemon.0, of_daemon.1, of_daemon.2), (7, None, Some((3, 60))), "its own block counts");
    assert_ne!(of_daemon.3, 5);
}

/// A text or nothing in place of a list has no items: the helper would do nothing, and say nothing.
#[test]
fn helpers_say_what_they_were_given_in_place_of_files() {
    for (call, wanted) in [
        ("setup 'a.toml'", "files: expected a list of paths or tables, found the text \"a.toml\""),
        ("setup()", "files: expected a list of paths or tables, found nothing"),
        ("setup { file = 'a.toml' }", "files: expected a list of paths or tables, found a table without items"),
        ("setup { folder .. '/a.toml', 7 }", "files[2]: expected a path or a table, found a number"),
    ] {
        for helper in ["sources", "queue", "dkim_sign", "listener_domains"] {
            let error = judged(&[("a.toml", "")], &format!("require('policy-extras.{helper}'):{call}"));
            let error = error.expect(helper).to_string();
            assert_has(&error, &[&format!("policy-extras.{helper}: {wanted}")]);
        }
    }
    let unknown = "require('policy-extras.queue'):setup_with_options { file_name = {} }";
    let unknown = judged(&[], unknown).expect("refused").to_string();
    assert_has(&unknown, &["policy-extras.queue: unknown option `file_name`", "(did you mean `file_names`?)"]);
    for (given, found) in [("7", "a number"), ("nil", "nothing")] {
        let call = format!("require('policy-extras.policy_utils').load_json_or_toml_file({given})");
        let error = judged(&[], &call).expect("refused").to_string();
        assert_has(&error, &[&format!("load_json_or_toml_file: expected a path or a table, found {found}")]);
    }
}

#[test]
fn an_operators_own_copy_of_a_helper_comes_first() {
    let folder = folder(&[]);
    std::fs::create_dir(folder.path().join("policy-extras")).expect("a folder");
    std::fs::write(folder.path().join("policy-extras/sources.lua"), "return { own = true }").expect("a file");
    let text = "package.path = folder .. '/?.lua;' .. package.path \
        assert(require('policy-extras.sources').own and require('policy-extras.queue').setup) \
        local ok, why = pcall(require, 'policy-extras.none') assert(not ok and why:find('no helper', 1, true))";
    let (_own, path) = file(&script(folder.path(), text));
    LuaPolicy::load(&path).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn small_functions_do_what_their_names_say() {
    let site = Site::new(
        &[("a.json", "{\"x\": [1]}"), ("a.toml", "x = [1]\n")],
        "local u = require 'policy-extras.policy_utils' \
         kumo.on('smtp_server_message_received', function(msg) \
            u.assert_eq({ 1, { a = 2 } }, { 1, { a = 2 } }) u.assert_ne({ 1 }, { 1, 2 }) u.assert_matches('abc', '^a') \
            assert(not pcall(u.assert_eq, 1, 2, 'm') and not pcall(u.assert_ne, 1, 1) and not pcall(u.assert_matches, 'a', 'b')) \
            assert(select(2, pcall(u.assert_eq, { a = 1 }, 2, 'note')):find('note', 1, true)) \
            u.assert_eq(u.merge_into({ a = 1 }, { a = 0, b = 2 }), { a = 1, b = 2 }) u.assert_eq(u.merge_into(nil, { 1 }), { 1 }) \
            u.assert_eq(u.recursive_merge_into({ a = { x = 1 } }, { a = { y = 2 } }), { a = { x = 1, y = 2 } }) \
            u.assert_eq(u.recursive_merge_into({ a = { 1 } }, { a = { 2, 3 } }), { a = { 1 } }) \
            u.assert_eq(u.recursive_merge_into({ a = {} }, { a = { 2, 3 } }), { a = {} }) \
            u.assert_eq(u.recursive_merge_into({ a = {} }, { a = { x = 1 } }), { a = { x = 1 } }) \
            local shared = kumo.memoize(function() return { x = 1 } end, { name = 'u', ttl = 60, capacity = 1 }) \
            u.assert_eq(u.recursive_merge_into({ a = shared() }, { a = { y = 2 } }), { a = { x = 1, y = 2 } }) \
            assert(u.table_contains({ 'a', 'b' }, 'b') and not u.table_contains({ 'a' }, 'c') and not u.table_contains(nil, 1)) \
            local keys = u.table_keys { a = 1, b = 2 } table.sort(keys) u.assert_eq(keys, { 'a', 'b' }) \
            assert(u.table_is_empty {} and not u.table_is_empty { 1 }) \
            for _, f in ipairs { folder .. '/a.json', folder .. '/a.toml', { x = { 1 } } } do \
                u.assert_eq(u.load_json_or_toml_file(f), { x = { 1 } }) end \
            assert(u.starts_with('abc', 'ab') and u.ends_with('abc', 'bc') and not u.ends_with('abc', 'x')) \
            local ip, port = u.split_ip_port '192.0.2.1:25' assert(ip == '192.0.2.1' and port == '25') \
            ip, port = u.split_ip_port '[::1]:587' assert(ip == '::1' and port == '587' and not pcall(u.split_ip_port, 'x')) \
            assert(u.dumps(nil) == nil and u.dumps { a = 1 } == '{\\n  \"a\": 1\\n}' and u.equals({}, {}) and not u.equals(1, '1')) \
         end)",
    );
    site.received("", &ConnMeta::new()).expect("sound");
}

#[test]
fn records_check_their_fields() {
    let site = Site::new(
        &[],
        "local t = require 'policy-extras.typing' \
         local Inner = t.record('Inner', { n = t.number }) \
         local R = t.record('R', { s = t.string, o = t.option(t.boolean), d = t.default(t.number, 7), l = t.option(t.list(t.string)), \
            m = t.option(t.map(t.string, t.number)), e = t.option(t.enum('Color', 'red', 'blue')), \
            v = t.option(t.variant(t.string, t.number)), i = t.option(Inner), f = t.option(t.Function), x = t.option(t.any) }) \
         local function refused(value, ...) local ok, why = pcall(R, value) assert(not ok) \
            for _, word in ipairs { ... } do assert(tostring(why):find(word, 1, true), tostring(why)) end end \
         kumo.on('smtp_server_message_received', function(msg) \
            local r = R { s = 'a', l = { 'x' }, m = { k = 1 }, e = 'red', v = 2, i = { n = 1 }, f = print, x = {} } \
            assert(r.s == 'a' and r.d == 7 and r.o == nil and r.l[1] == 'x' and r.m.k == 1 and r.i.n == 1) \
            r.s = 'b' assert(r.s == 'b') \
            assert(not pcall(function() r.s = 1 end) and not pcall(function() r.none = 1 end)) \
            local names = {} for name in pairs(r) do names[name] = true end assert(names.s and names.d and not names._fields) \
            refused({}, 'R.s', 'missing', 'string') refused({ s = 1 }, 'R.s', '1', 'string') \
            refused({ s = 'a', l = { 1 } }, 'R.l[1]') refused({ s = 'a', l = { a = 'x' } }, 'list items only') \
            refused({ s = 'a', m = { [1] = 1 } }, 'R.m[1]', 'string') refused({ s = 'a', e = 'green' }, 'Color', 'red, blue') \
            refused({ s = 'a', v = {} }, 'string or number') refused({ s = 'a', i = {} }, 'R.i.n') \
            refused({ s = 'a', q = 1 }, 'no such field `q`', 'd, e, f') refused({ s = 'a', f = 1 }, 'function') \
            local Q = t.record('Q', { _dynamic = function(k, v) return pcall(kumo.make_queue_config, { [k] = v }) end }) \
            assert(Q { max_age = '5m' }.max_age == '5m') \
            local ok, why = pcall(Q, { max_age = 'soon' }) \
            assert(not ok and why:find('max_age', 1, true) and why:find('invalid duration', 1, true) and not why:find('while processing', 1, true)) \
            local _, odd = pcall(kumo.make_queue_config, { max_age = 'soon' }) \
            assert(t.extract_deserialize_error(odd):find('^invalid duration') and t.extract_deserialize_error('plain') == 'plain') \
         end)",
    );
    site.received("", &ConnMeta::new()).expect("sound");
}

#[test]
fn neighbours_of_a_container_are_found_as_the_system_finds_them() {
    let site = Site::new(
        &[],
        "local d = require 'policy-extras.docker_utils' local getenv = os.getenv \
         os.getenv = function(name) return name == 'HOSTNAME' and 'localhost' or getenv(name) end \
         kumo.on('smtp_server_message_received', function(msg) \
            local here = d.resolve_docker_name 'localhost' assert(here[1] == '127.0.0.1', tostring(here[1])) \
            assert(d.resolve_docker_network() == '127.0.0.0/24' and not pcall(d.resolve_docker_name, 'a; reboot')) \
            d.resolve_docker_name = function(name) assert(name == 'tsa') return { '10.0.0.1', '10.0.0.2' } end \
            assert(d.resolve_tsa_endpoints()[2] == 'http://10.0.0.2:8008') end)",
    );
    site.received("", &ConnMeta::new()).expect("sound");
}

#[test]
fn domains_that_are_hosted_in_one_place_are_routed_there() {
    // DNS is asked in testing/e2e/tests/lookups.rs; here it is what the script makes it.
    let site = Site::new(
        &[],
        "local r = require 'policy-extras.rollup' \
         local answer = { hosts = { 'a.mx.big.test.', 'b.mx.big.test.' }, by_pref = { ['10'] = { 'a.mx.big.test.' }, ['9'] = { 'x.ip.test.' } } } \
         kumo.dns.lookup_mx = function(domain) if domain == 'gone.test' then error 'no such name' end return answer end \
         kumo.dns.lookup_addr = function(host) return { '192.0.2.' .. #host } end \
         kumo.on('smtp_server_message_received', function(msg) \
            r.reroute_based_on_mx_host_suffix(msg, { ['.mx.big.test.'] = 'big.test', ['.other.'] = 'x' }) \
            assert(msg:get_meta 'routing_domain' == 'big.test') \
            msg:set_meta('routing_domain', nil) r.reroute_based_on_mx_host_suffix(msg, { ['a.mx.big.test.'] = 'x' }) \
            assert(msg:get_meta 'routing_domain' == nil, 'not all of them') \
            r.reroute_using_ip_rollup(msg, { ['.ip.test.'] = 'ip.ip_rollup' }) assert(msg:get_meta 'routing_domain' == 'ip.ip_rollup') \
            local params = {} r.apply_ip_rollup_to_queue_config('d.test', 'd.test', params) assert(params.protocol == nil) \
            r.apply_ip_rollup_to_queue_config('d.test', 'ip.ip_rollup', params) \
            assert(#params.protocol.smtp.mx_list == 1 and params.protocol.smtp.mx_list[1] == '[192.0.2.14]', 'hosts of one address') \
            assert(kumo.make_queue_config(params)) \
            kumo.dns.lookup_addr = function(host) if host == 'b.mx.big.test.' then error 'no such host' end return { '192.0.2.9' } end \
            r.apply_ip_rollup_to_queue_config('d.test', 'ip.ip_rollup', params) \
            assert(params.protocol.smtp.mx_list[1] == '[192.0.2.9]', 'the other host takes it') \
            kumo.dns.lookup_addr = function() error 'no such host' end \
            local ok, why = pcall(r.apply_ip_rollup_to_queue_config, 'd.test', 'ip.ip_rollup', params) \
            assert(not ok and tostring(why):find('no such host', 1, true), why) \
            msg:set_meta('routing_domain', nil) msg:set_recipient 'a@gone.test' \
            r.reroute_based_on_mx_host_suffix(msg, { [''] = 'x' }) assert(msg:get_meta 'routing_domain' == nil) end)",
    );
    site.received("", &ConnMeta::new()).expect("sound");
}

/// There is a state for each handler that runs at a time.
#[test]
fn a_state_with_all_helpers_takes_less_than_a_mebibyte() {
    let helpers =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../share/policy-extras")).expect("helpers");
    let files =
        helpers.map(|entry| entry.expect("a file").path()).filter(|file| file.extension().is_some_and(|e| e == "lua"));
    let names = files.map(|file| file.file_stem().expect("a name").to_string_lossy().into_owned());
    let required: String = names.map(|name| format!("require 'policy-extras.{name}'\n")).collect();
    let judged = "kumo.on('get_egress_source', function() return kumo.make_egress_source { name = tostring(kib) } end)";
    // The first, which compiled it all, is not used again.
    let once = "kumo.set_max_lua_context_use_count(1)";
    let site = Site::new(&[], &format!("{once} {required} {judged} kib = collectgarbage 'count'"));
    let kib = || site.source("x").expect("an answer").name.parse::<f64>().expect("a number");
    let (_, kib) = (kib(), kib());
    assert!((100.0..1024.0).contains(&kib), "{kib} KiB");
}

/// A test key, used nowhere else.
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEILCJGDWOhHS6clpcNd64BBD7jmJ9gx16f7gzxdf39dWG\n-----END PRIVATE KEY-----\n";
