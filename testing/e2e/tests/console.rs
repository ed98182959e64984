//! The console in a real browser, against the whole program with mail in it.

use e2e::browser::{Browser, Loaded};
use e2e::http;
use e2e::kumod::Kumod;
use e2e::stage::{HOSTILE, Stage, get};
use e2e::until::{SOON, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

const BOUNCE: &str = "/api/admin/bounce/v1";
const SUSPEND: &str = "/api/admin/suspend/v1";
const SUSPEND_READY: &str = "/api/admin/suspend-ready-q/v1";
/// What the page's policy begins with.
const STRICT: &str =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; ";
const OVERVIEW: &str = "/api/admin/overview/v1";

#[test]
fn the_page_is_small_and_of_this_server_alone() {
    let mut stage = Stage::set();
    stage.go("");
    let origin = stage.at("").replace("/console", "/");
    let loaded = stage.browser.loaded();
    let strange: Vec<&Loaded> =
        loaded.iter().filter(|one| !one.url.starts_with(&origin) && !one.url.starts_with("data:")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    let of_page = loaded.iter().filter(|one| one.url.contains("/console"));
    let octets: u64 = of_page.clone().map(|one| one.octets).sum();
    assert!(of_page.clone().count() == 11 && of_page.clone().all(|one| one.octets > 0), "{loaded:?}");
    assert!(octets < 100_000, "{octets} octets");
    println!("{octets} octets");
    stage.browser.until("[...document.querySelectorAll('.tile')].some(one => /Queued\\s*16/.test(one.innerText))");
    stage.browser.until_text("slow.test");
    stage.browser.until_text("not yet due: a retry");
    assert_eq!(stage.browser.complaints(), Vec::<String>::new());
    let policy = stage.browser.ask("fetch('console').then(page => page.headers.get('content-security-policy'))");
    assert!(policy.as_str().is_some_and(|policy| policy.starts_with(STRICT)), "{policy}");
    stage.picture("overview-light");
}

#[test]
fn queues_are_followed_down_to_a_message() {
    let mut stage = Stage::set();
    stage.go("#/queues?by=tenant");
    stage.browser.until_text("shop");
    let numbers = "[...document.querySelectorAll('tbody tr')].map(row => row.querySelector('th').innerText.trim() + ' ' + row.querySelector('td').innerText)";
    let rows = stage.browser.ask(numbers);
    let rows: Vec<&str> = rows.as_array().expect("rows").iter().filter_map(Value::as_str).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in ["shop 6", "(no tenant) 5", "news 2"] {
        assert!(rows.contains(&row), "{row}: {rows:?}");
    }
    stage.picture("queues-light");
    stage.browser.click("tbody th a", "shop");
    stage.browser.click("tbody th a", "slow.test");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 1");
    stage.browser.click("tbody th a", "spring:shop@slow.test");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 6");
    stage.browser.until_text("waiting – for the next attempt after a failure");
    stage.picture("queue-light");
    stage.browser.click("tbody th a", "@slow.test");
    stage.browser.until_text("@slow.test");
    stage.browser.until_text("a@source.test");
    stage.picture("message-light");

    stage.go("#/queues?by=source");
    stage.browser.click("tbody th a", "ip-1");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 4");
    stage.browser.until_text("451");
    stage.picture("ready-light");
    stage.browser.click("tbody th a", "mx.slow.test");
    stage.browser.until_text("4.7.1 not now");
    stage.browser.until("document.querySelector('h1').innerText.startsWith('Ready queue ip-1->')");
}

#[test]
fn a_suspension_is_confirmed_given_and_undone() {
    let mut stage = Stage::set();
    stage.go("#/queues?by=domain");
    stage.browser.click("button[aria-label='Act on domain slow.test']", "Act");
    stage.browser.until_text("It concerns 8 messages now, in 2 queues.");
    stage.picture("dialog-light");
    stage.browser.click("dialog button[type=submit]", "Suspend 8 messages");
    stage.browser.write(" ");
    stage.browser.click("dialog button[type=submit]", "Suspend 8 messages");
    assert!(get(&stage.relay, SUSPEND).as_array().is_some_and(Vec::is_empty), "no reason, no order");
    stage.browser.click("#reason", "");
    stage.browser.write("they asked us to wait");
    stage.browser.click("dialog button[type=submit]", "Suspend 8 messages");
    stage.browser.until_text("Suspended: 8 messages of domain slow.test.");
    let given = get(&stage.relay, SUSPEND);
    assert_eq!((&given[0]["domain"], &given[0]["reason"]), (&json!("slow.test"), &json!("they asked us to wait")));
    stage.browser.until("document.querySelector('tbody .tag')?.innerText === '2 suspended'");
    stage.picture("suspended-light");
    stage.browser.click(".toast button", "Undo");
    until(SOON, "the end of the suspension", || {
        get(&stage.relay, SUSPEND).as_array().is_some_and(Vec::is_empty).then_some(())
    });
    stage.browser.until("!document.querySelector('tbody .tag')");
    let orders = stage.browser.loaded().into_iter().filter(|one| one.url.ends_with(SUSPEND));
    assert_eq!(orders.count(), 2, "given once, taken back once");

    let name =
        stage.browser.ask("fetch('api/admin/queues/v1?by=ready').then(a => a.json()).then(a => a.groups[0].name)");
    stage.go("#/queues?by=ready");
    stage.browser.click(&format!("button[aria-label='Act on ready queue {}']", name.as_str().expect("a name")), "Act");
    stage.browser.until_text("It sends nothing");
    stage.browser.until_text("It concerns");
    stage.browser.write("a look at it");
    stage.browser.click("dialog button[type=submit]", "Suspend");
    until(SOON, "its suspension", || (get(&stage.relay, SUSPEND_READY)[0]["name"] == name).then_some(()));
    stage.go("#/orders");
    stage.browser.click("tbody button", "Lift");
    stage.browser.click("dialog button[type=submit]", "Lift");
    until(SOON, "no suspension", || {
        get(&stage.relay, SUSPEND_READY).as_array().is_some_and(Vec::is_empty).then_some(())
    });
    stage.browser.click(".toast button", "Undo");
    until(SOON, "the suspension again", || {
        (get(&stage.relay, SUSPEND_READY)[0]["reason"] == "a look at it").then_some(())
    });
    assert_eq!(stage.browser.complaints(), Vec::<String>::new());
}

#[test]
fn undo_brings_back_the_order_that_gave_way() {
    let mut stage = Stage::set();
    let earlier = json!({"domain": "slow.test", "reason": "they asked us to wait", "duration": "3 hours"});
    let earlier = http::json(stage.relay.http(), "POST", SUSPEND, &earlier);
    assert_eq!(earlier["replaced"], Value::Null, "the first of its kind: {earlier}");
    let ends = get(&stage.relay, SUSPEND)[0]["expires"].clone();
    suspend(&mut stage, "another reason");
    stage.browser.until_text("It took the place of an order given before: they asked us to wait.");
    let all = get(&stage.relay, SUSPEND);
    assert_eq!((all.as_array().map(Vec::len), &all[0]["reason"]), (Some(1), &json!("another reason")));
    stage.browser.click(".toast button", "Undo");
    let back = until(SOON, "the earlier one", || {
        let all = get(&stage.relay, SUSPEND);
        (all[0]["reason"] == "they asked us to wait").then_some(all)
    });
    assert_eq!((back.as_array().map(Vec::len), &back[0]["expires"]), (Some(1), &ends), "as it was: {back}");
    stage.browser.until_text("In force again: they asked us to wait (domain slow.test).");
    let orders = stage.browser.loaded().into_iter().filter(|one| one.url.ends_with(SUSPEND));
    assert_eq!(orders.count(), 2, "given, and the other given again: no moment without an order");
    assert_eq!(stage.browser.complaints(), Vec::<String>::new());
}

#[test]
fn undo_changes_nothing_when_somebody_else_was_faster() {
    let mut stage = Stage::set();
    let give = |stage: &Stage, reason: &str| {
        let order = json!({"domain": "slow.test", "reason": reason, "duration": "3 hours"});
        http::json(stage.relay.http(), "POST", SUSPEND, &order)
    };
    let holds = |stage: &Stage, reason: &str| {
        let all = get(&stage.relay, SUSPEND);
        assert_eq!((all.as_array().map(Vec::len), &all[0]["reason"]), (Some(1), &json!(reason)), "{all}");
    };
    // It took nobody's place, and is not there any more.
    suspend(&mut stage, "a mistake");
    stage.browser.until_text("Suspended: 8 messages of domain slow.test.");
    give(&stage, "the night shift");
    stage.browser.click(".toast button", "Undo");
    stage.browser.until_text("Nothing was changed: the order is not in force any more (domain slow.test)");
    holds(&stage, "the night shift");
    // It took the place of one, and somebody else's has taken its.
    suspend(&mut stage, "a mistake");
    stage.browser.until_text("It took the place of an order given before: the night shift.");
    give(&stage, "the day shift");
    stage.browser.click(".toast button", "Undo");
    stage.browser.until_text("somebody has given another order about the same since: the day shift");
    holds(&stage, "the day shift");
    // One is lifted, and somebody else gives another one.
    stage.go("#/orders");
    stage.browser.click("tbody button", "Lift");
    stage.browser.click("dialog button[type=submit]", "Lift");
    until(SOON, "no suspension", || get(&stage.relay, SUSPEND).as_array().is_some_and(Vec::is_empty).then_some(()));
    stage.browser.until_text("Taken back: domain slow.test.");
    give(&stage, "the late shift");
    stage.browser.click(".toast button", "Undo");
    stage.browser.until_text("somebody has given another order about the same since: the late shift");
    holds(&stage, "the late shift");
}

/// Suspends what is for slow.test.
fn suspend(stage: &mut Stage, reason: &str) {
    stage.go("#/queues?by=domain");
    stage.browser.click("button[aria-label='Act on domain slow.test']", "Act");
    stage.browser.until_text("It concerns 8 messages now");
    stage.browser.write(reason);
    stage.browser.click("dialog button[type=submit]", "Suspend 8 messages");
}

#[test]
fn a_bounce_waits_is_undone_and_then_done() {
    let mut stage = Stage::set();
    let bounces = |relay: &Kumod| get(relay, BOUNCE).as_array().expect("a list").clone();
    stage.go("#/queues?by=queue&domain=away.test");
    for is_done in [false, true] {
        stage.browser.click("main button", "Bounce…");
        stage.browser.until_text("It concerns 5 messages now");
        stage.browser.write(if is_done { "wrong list" } else { "a mistake" });
        stage.browser.click("dialog button[type=submit]", "Bounce 5 messages");
        stage.browser.until_text("Bounce: 5 messages of domain away.test in ");
        assert!(bounces(&stage.relay).is_empty(), "nothing is done yet");
        if !is_done {
            stage.picture("countdown-light");
            stage.browser.click(".toast button", "Undo");
            stage.browser.until_text("Nothing was done to domain away.test.");
        }
    }
    until(SOON, "five bounced", || (bounces(&stage.relay).first()?["total_bounced"] == 5).then_some(()));
    let all = bounces(&stage.relay);
    assert_eq!((all.len(), &all[0]["domain"], &all[0]["reason"]), (1, &json!("away.test"), &json!("wrong list")));
    stage.browser.until_text("Bounced: 5 messages of domain away.test.");
    let orders = stage.browser.loaded().into_iter().filter(|one| one.url.ends_with(BOUNCE));
    assert_eq!(orders.count(), 1, "the one that was undone was not given");
    stage.browser.until_text("Nothing is queued here.");
    assert_eq!(get(&stage.relay, OVERVIEW)["messages"], 11, "and nothing else");
}

#[test]
fn what_strangers_write_is_text() {
    let mut stage = Stage::set();
    for view in ["", "#/queues?by=tenant", "#/queues?by=queue", "#/queues?by=ready"] {
        stage.go(view);
        stage.browser.until_text(HOSTILE);
    }
    stage.browser.click("tbody th a", "mx.odd.test");
    stage.browser.until_text(&format!("not now {HOSTILE}"));
    let queue = format!("#/queue?name={}", "spring%3A%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E%40odd.test");
    stage.go(&queue);
    stage.browser.until("document.querySelectorAll('tbody tr').length === 3");
    stage.browser.click("main button", "Hold…");
    stage.browser.until_text("It concerns 3 messages now");
    let markup = stage.browser.ask("document.querySelectorAll('img').length + (window.pwned ?? 0)");
    assert_eq!(markup, 0);
    stage.go(&format!("#/search?recipient={}", "%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E"));
    stage.browser.until(&format!("document.querySelector('#f-recipient')?.value === {}", Value::from(HOSTILE)));
    assert_eq!(stage.browser.ask("document.querySelectorAll('img').length + (window.pwned ?? 0)"), 0);
    // And if a script forgot: markup is not made of text here.
    let refused = stage.browser.ask(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done' } catch (error) { return error.name } })()",
    );
    assert_eq!(refused, "TypeError");
}

#[test]
fn everything_is_done_by_keyboard() {
    let mut stage = Stage::set();
    stage.go("");
    stage.browser.press("Tab");
    stage
        .browser
        .until("document.activeElement.id === 'skip' && document.activeElement.getBoundingClientRect().left >= 0");
    stage.browser.press("Tab");
    stage.browser.press("Tab");
    stage.browser.until("document.activeElement.innerText === 'Queues'");
    stage.browser.until("getComputedStyle(document.activeElement).outlineStyle === 'solid'");
    stage.browser.press("Enter");
    stage
        .browser
        .until("document.querySelector('h1').innerText === 'Queues' && document.activeElement.tagName === 'H1'");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 3");
    let act = "document.activeElement.getAttribute('aria-label') === 'Act on domain slow.test'";
    tab_until(&mut stage.browser, act);
    stage.browser.press("Enter");
    stage.browser.until("document.querySelector('dialog').open && document.activeElement.id === 'reason'");
    stage.browser.press("Escape");
    stage.browser.until(&format!("!document.querySelector('dialog').open && {act}"));
    // The page asks again all the time; the focus stays.
    stage.browser.until("new Promise(done => new PerformanceObserver(() => done(true)).observe({type: 'resource'}))");
    stage.browser.until(act);
    stage.browser.press("Enter");
    stage.browser.until_text("It concerns 8 messages now");
    stage.browser.write("by keys");
    stage.browser.press("Enter");
    stage.browser.until("document.activeElement.innerText === 'Undo'");
    assert_eq!(get(&stage.relay, SUSPEND)[0]["reason"], "by keys");
    stage.browser.press("Enter");
    until(SOON, "its end", || get(&stage.relay, SUSPEND).as_array().is_some_and(Vec::is_empty).then_some(()));
    // Who moves up in the order of rows keeps the focus.
    let away = "document.activeElement.getAttribute('aria-label') === 'Act on domain away.test'";
    tab_until(&mut stage.browser, away);
    (0..4).for_each(|number| stage.submit(&format!("more{number}@away.test"), ""));
    stage.browser.until("document.querySelector('tbody th').innerText.startsWith('away.test')");
    assert_eq!(stage.browser.ask(away), true);
    // Every control has a name to be read out.
    let nameless = stage.browser.ask("[...document.querySelectorAll('a, button, input, select')].filter(one => !(one.innerText || one.labels?.length || one.getAttribute('aria-label'))).length");
    assert_eq!(nameless, 0);
}

/// Tabs on until that holds.
fn tab_until(browser: &mut Browser, expression: &str) {
    for _ in 0..60 {
        if browser.ask(expression) == true {
            return;
        }
        browser.press("Tab");
    }
    panic!("{expression}: not within 60 steps");
}

#[test]
fn it_fits_a_phone_in_light_and_dark() {
    let mut stage = Stage::set();
    let mut backgrounds = Vec::new();
    for scheme in ["light", "dark"] {
        stage.browser.prefer("prefers-color-scheme", scheme);
        stage.browser.resize(360, 740, true);
        for (name, view, text) in [
            ("overview", "", "Why mail waits"),
            ("queues", "#/queues?by=domain", "slow.test"),
            ("ready", "#/queues?by=ready", "ip-1->mx_list"),
            ("queue", "#/queue?name=spring:shop@slow.test", "6 messages"),
            ("orders", "#/orders", "None. Orders"),
            ("search", "#/search", "Recipient"),
            ("config", "#/config", "Epoch 0 is in force"),
        ] {
            stage.go(view);
            stage.browser.until_text(text);
            let width = stage.browser.ask("document.documentElement.scrollWidth");
            assert_eq!(width, 360, "{name} must not be scrolled sideways");
            stage.picture(&format!("phone-{name}-{scheme}"));
        }
        stage.go("#/queue?name=spring:shop@slow.test");
        stage.browser.click("main button", "Bounce…");
        stage.browser.until_text("It concerns 6 messages");
        let fits = "(() => { const box = document.querySelector('dialog').getBoundingClientRect(); return box.left >= 0 && box.right <= 360 && box.bottom <= 740; })()";
        assert_eq!(stage.browser.ask(fits), true);
        stage.picture(&format!("phone-dialog-{scheme}"));
        backgrounds.push(stage.browser.ask("getComputedStyle(document.documentElement).backgroundColor"));
        stage.browser.resize(1280, 900, false);
        stage.go("");
        stage.browser.until_text("slow.test");
        stage.picture(&format!("overview-{scheme}"));
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
}

#[test]
fn a_server_that_is_gone_is_said_to_be() {
    let mut stage = Stage::set();
    stage.go("");
    stage.browser.until_text("slow.test");
    stage.relay.process.kill();
    stage.browser.until("document.querySelector('#trouble [role=alert]')?.innerText.includes('does not answer')");
    stage.browser.until("document.querySelector('#state .bad')");
    stage.browser.until_text("slow.test");
    stage.picture("gone-light");
}

#[test]
fn pages_of_other_sites_give_no_orders_through_it() {
    let mut stage = Stage::set();
    let (server, epochs) =
        (stage.relay.http(), |relay: &Kumod| get(relay, OVERVIEW)["epochs"].as_array().map(Vec::len));
    // Another server of this machine: browsers ask it without more ado.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = listener.local_addr().expect("its address");
    thread::spawn(move || listener.incoming().flatten().for_each(|client| _ = serve_page(&client)));
    stage.browser.go(&format!("http://{other}/"));
    let bump = format!(
        "fetch('http://{server}/api/admin/bump-config-epoch', {{method: 'POST', mode: 'no-cors'}}).then(answer => answer.type, error => String(error))"
    );
    assert_eq!(stage.browser.ask(&bump), "opaque", "it was sent, and answered");
    let listen = format!(
        "new Promise(done => {{ const socket = new WebSocket('ws://{server}/api/admin/trace-smtp-server/v1'); socket.onopen = () => done('open'); socket.onerror = () => done('refused'); }})"
    );
    assert_eq!(stage.browser.ask(&listen), "refused");
    assert_eq!(epochs(&stage.relay), Some(1), "nothing began");
    // A name that was made to be ours.
    stage.browser.go(&format!("http://evil.test:{}/console", server.port()));
    stage.browser.until_text("a browser calls this server \"evil.test:");
    // Its own page may do both.
    stage.go("");
    let own = stage.browser.ask("fetch('api/admin/bump-config-epoch', {method: 'POST'}).then(answer => answer.status)");
    assert_eq!((own, epochs(&stage.relay)), (json!(200), Some(2)));
    stage.go("#/config");
    stage.browser.until_text("POST /api/admin/bump-config-epoch");
    stage.picture("config-light");
}

/// An empty page to one who asks.
fn serve_page(client: &TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(client).lines();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut writer = client;
    writer.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 10\r\nConnection: close\r\n\r\n<p>another",
    )
}
