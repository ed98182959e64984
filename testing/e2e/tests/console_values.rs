//! What the console shows is what the server's metrics say, and its buttons do what they say: in a real browser, against the whole program.

use e2e::http;
use e2e::stage::{Stage, get};
use e2e::until::{SOON, until};
use e2e::wire::Client;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const HOLD: &str = "/api/admin/hold/v1";
const BOUNCE: &str = "/api/admin/bounce/v1";
const SEARCH: &str = "/api/admin/search/v1";
const MESSAGE: &str = "/api/admin/inspect-message/v1";
const SCHED: &str = "/api/admin/inspect-sched-q/v1";

#[test]
fn rates_and_counts_are_those_of_the_metrics() {
    let mut stage = Stage::set();
    stage.browser.before_each_page(RECORDER);
    stage.go("");
    // A rate is the difference of two answers: until there are, nothing is said.
    stage.browser.until("told.length >= 2");
    await_rate(&mut stage, "Received", "received", |rate| rate == 0.0);
    (0..BURST).for_each(|number| stage.submit(&format!("burst{number}@good.test"), ""));
    stage.relay.await_metric(DELIVERED, f64::from(4 + BURST), SOON);
    await_rate(&mut stage, "Received", "received", |rate| rate > 0.0);
    await_rate(&mut stage, "Delivered", "delivered", |rate| rate > 0.0);
    await_rate(&mut stage, "Failed", "failed", |rate| rate == 0.0);
    for (tile, series, known) in
        [("Received", RECEIVED, 20 + BURST), ("Delivered", DELIVERED, 4 + BURST), ("Put off", PUT_OFF, 16)]
    {
        assert_eq!(stage.relay.metric(series), f64::from(known), "{series}");
        stage.browser.until(&format!("{}.includes('{known} in all')", text_of(tile)));
    }
    stage.browser.until(&format!("/^Queued\\s*16/.test({})", text_of("Queued")));
    // Two that say nothing.
    let clients = [Client::connect(stage.relay.smtp()), Client::connect(stage.relay.smtp())];
    stage.relay.await_metric(INBOUND, 2.0, SOON);
    stage.browser.until(&format!("{}.includes('2 in')", text_of("Connections")));
    drop(clients);
    stage.browser.until(&format!("{}.includes('0 in')", text_of("Connections")));
    assert_eq!(stage.browser.complaints(), Vec::<String>::new());
}

/// Waits until a tile shows the rate that follows from the answers the page was given, and the rate is such a one.
fn await_rate(stage: &mut Stage, tile: &str, total: &str, is_such: impl Fn(f64) -> bool) {
    let both = format!("[told, {}.querySelector('dd').firstChild.data]", named(tile));
    until(SOON, &format!("the rate of {tile}"), || {
        let both = stage.browser.ask(&both);
        let (told, shown) = (both[0].as_array()?, both[1].as_str()?);
        let rate = rate_of(told, total)?;
        (is_such(rate) && shown == written(rate)).then_some(())
    });
}

/// A second, from the first answer of the last ten seconds and a half to the last one.
fn rate_of(told: &[Value], total: &str) -> Option<f64> {
    // As browsers have times: in whole milliseconds.
    let at_ms = |answer: &Value| {
        let at = OffsetDateTime::parse(answer["now"].as_str().expect("a time"), &Rfc3339).expect("a time");
        (at.unix_timestamp_nanos() / 1_000_000) as f64
    };
    let number = |answer: &Value| answer["totals"][total].as_f64().expect("a number");
    let last = told.last()?;
    let first = told.iter().find(|answer| at_ms(last) - at_ms(answer) <= 10_500.0)?;
    let seconds = (at_ms(last) - at_ms(first)) / 1000.0;
    (seconds > 0.0).then(|| (number(last) - number(first)) / seconds)
}

fn written(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

/// A tile.
fn named(tile: &str) -> String {
    format!("[...document.querySelectorAll('.tile')].find(one => one.querySelector('dt').innerText === '{tile}')")
}

/// Its text, as it is seen.
fn text_of(tile: &str) -> String {
    format!("{}.innerText", named(tile))
}

#[test]
fn times_are_those_of_the_metrics() {
    let mut stage = Stage::set();
    stage.go("");
    let page = stage.relay.metrics();
    for (name, series, known) in [
        ("End of DATA to reply", "smtpsrv_process_data_duration", 20),
        ("Reception to delivery", "postrider_delivery_seconds", 4),
    ] {
        let row = format!(
            "[...document.querySelectorAll('tbody tr')].map(row => [...row.children].map(cell => cell.innerText.trim())).find(cells => cells[0] === '{name}, all time' || cells[0] === 'all time' && cells[4] === '{known}')"
        );
        let cells = stage.browser.until(&row);
        assert_eq!(cells[4], known.to_string(), "{series}: {cells}");
        for (cell, share) in [(1, 0.5), (2, 0.95), (3, 0.99)] {
            let (low, high) = within(&page, series, share);
            let shown = seconds(cells[cell].as_str().expect("a time"));
            // It is shown in milliseconds, one at least, or in tenths of seconds.
            let of_display = if shown < 1.0 { 0.001 } else { 0.05 };
            let fits = shown >= low - of_display && shown <= high + of_display;
            assert!(fits, "{series} {share}: {shown}, expected {low} to {high}");
        }
    }
    // And between the bounds, by arithmetic that can be done by hand.
    for (buckets, count, share, expected) in [
        ("[[1, 10], [2, 20]]", 20, 0.5, "1"),
        ("[[1, 10], [2, 20]]", 20, 0.25, "0.5"),
        ("[[1, 10], [2, 20]]", 20, 0.75, "1.5"),
        ("[[1, 0], [2, 4], [4, 8]]", 8, 0.75, "3"),
        ("[[1, 10], [2, 10]]", 20, 0.99, "Infinity"),
        ("[[1, 0]]", 0, 0.5, "null"),
    ] {
        let asked = format!(
            "import('/console/overview.js').then(page => String(page.quantile({{buckets: {buckets}, count: {count}}}, {share})))"
        );
        assert_eq!(stage.browser.ask(&asked), expected, "{share} of {buckets}");
    }
    // What came since the page was opened stands apart.
    (0..BURST).for_each(|number| stage.submit(&format!("burst{number}@good.test"), ""));
    for name in ["End of DATA to reply", "Reception to delivery"] {
        let count = format!(
            "[...document.querySelectorAll('tbody tr')].find(row => row.innerText.startsWith('{name}, last '))?.lastElementChild.innerText === '{BURST}'"
        );
        stage.browser.until(&count);
    }
}

/// Between which bounds of a histogram a share of all lies, seconds.
fn within(page: &str, series: &str, share: f64) -> (f64, f64) {
    let count = http::value(page, &format!("{series}_count")).expect("a count");
    let mark = format!("{series}_bucket{{le=\"");
    let mut low = 0.0;
    for line in page.lines().filter_map(|line| line.strip_prefix(&*mark)) {
        let (bound, up_to) = line.split_once("\"} ").expect("a bucket");
        let bound = bound.parse().unwrap_or(f64::INFINITY);
        if up_to.parse::<f64>().expect("a number") >= share * count {
            return (low, bound);
        }
        low = bound;
    }
    panic!("{series}: no last bucket")
}

/// Of a time as the page writes it.
fn seconds(text: &str) -> f64 {
    let (number, unit) = text.trim_start_matches("> ").split_once(' ').unwrap_or_else(|| panic!("{text:?}"));
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("{text:?}"));
    match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "min" => number * 60.0,
        _ => panic!("{text:?}"),
    }
}

#[test]
fn ended_mail_is_found_by_the_form_and_says_what_happened() {
    let mut stage = Stage::set();
    let bounce = json!({"domain": "away.test", "reason": "wrong list", "duration": "0s"});
    http::json(stage.relay.http(), "POST", BOUNCE, &bounce);
    // The log is a moment behind.
    for (recipient, state) in [("r0@good.test", "delivered"), ("r0@away.test", "admin_bounced")] {
        await_found(&stage, &format!("recipient={recipient}&state={state}"), 1);
    }
    stage.go("#/search");
    stage.browser.click("#f-recipient", "");
    stage.browser.write("r0@good.test");
    stage.browser.click("form button", "Search");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 1");
    stage.browser.until("document.querySelector('tbody td').innerText === 'delivered'");
    stage.picture("found-light");
    stage.browser.click("tbody th a", "r0@good.test");
    stage.browser.until_text("It is not queued here.");
    let events = "[...document.querySelectorAll('.events li b')].map(one => one.innerText).join()";
    assert_eq!(stage.browser.until(events), "Reception,Delivery");
    stage.browser.until_text("250 ");
    stage.picture("timeline-light");

    // By what became of it, too: all there is can be chosen.
    stage.go("#/search?recipient=r0@away.test");
    let chosen = "[...document.querySelector('#f-state').options].map(one => one.value).filter(Boolean)";
    let document = get(&stage.relay, "/api-docs/openapi.json");
    let parameters = document["paths"][SEARCH]["get"]["parameters"].as_array().expect("parameters");
    let state = parameters.iter().find(|parameter| parameter["name"] == "state").expect("the state");
    let mut states = state["schema"]["enum"].as_array().expect("states").clone();
    states.retain(Value::is_string);
    assert_eq!(stage.browser.ask(chosen), Value::Array(states));
    stage.browser.ask("document.querySelector('#f-state').value = 'bounced'");
    stage.browser.click("form button", "Search");
    stage.browser.until_text("No message was found.");
    stage.browser.ask("document.querySelector('#f-state').value = 'admin_bounced'");
    stage.browser.click("form button", "Search");
    stage.browser.until("document.querySelector('tbody td')?.innerText === 'admin bounced'");
    assert_eq!(stage.browser.ask("location.hash.includes('state=admin_bounced')"), true);
    stage.browser.click("tbody th a", "r0@away.test");
    stage.browser.until_text("Administrator bounced with reason: wrong list");
    // That it is not queued is an answer 404, which browsers remark on.
    let others = |complaint: &String| !complaint.contains("inspect-message");
    assert_eq!(stage.browser.complaints().into_iter().find(others), None);
}

#[test]
fn what_is_found_is_shown_page_by_page() {
    let mut stage = Stage::set();
    let more = 60;
    (0..more).for_each(|number| stage.submit(&format!("more{number}@good.test"), ""));
    await_found(&stage, "sender=a@source.test&limit=1000", 20 + more);
    stage.go("#/search");
    stage.browser.click("#f-sender", "");
    stage.browser.write("a@source.test");
    stage.browser.press("Enter");
    stage.browser.until("document.querySelectorAll('tbody tr').length === 50");
    let first = stage.browser.ask(ROWS);
    stage.browser.click("main a", "More");
    stage.browser.until(&format!("document.querySelectorAll('tbody tr').length === {}", 20 + more - 50));
    let second = stage.browser.ask(ROWS);
    let is_new = |row: &Value| !first.as_array().expect("rows").contains(row);
    assert!(second.as_array().expect("rows").iter().all(is_new), "none twice: {second}");
}

/// Waits until a question to the server finds so many.
fn await_found(stage: &Stage, query: &str, count: usize) {
    until(SOON, query, || {
        let found = get(&stage.relay, &format!("{SEARCH}?{query}"));
        (found["messages"].as_array().map(Vec::len) == Some(count)).then_some(())
    });
}

#[test]
fn a_message_is_held_released_and_tried_by_buttons() {
    let mut stage = Stage::set();
    let queue = get(&stage.relay, &format!("{SCHED}?queue_name=away.test"));
    let id = queue["messages"][0]["id"].as_str().expect("an id").to_owned();
    let holds = |stage: &Stage| get(&stage.relay, HOLD).as_array().expect("a list").clone();
    let await_state = |stage: &Stage, state: &str| {
        let path = format!("{MESSAGE}?id={id}");
        until(SOON, state, || (get(&stage.relay, &path)["state"] == state).then_some(()));
    };
    stage.go(&format!("#/message?id={id}"));
    for reason in ["a mistake", "evidence"] {
        order(&mut stage, "Hold", reason);
        stage.browser.until_text(&format!("Held: message {id}."));
        let given = holds(&stage);
        assert_eq!((given.len(), &given[0]["messages"], &given[0]["reason"]), (1, &json!([id]), &json!(reason)));
        await_state(&stage, "held");
        stage.browser.until_text("held – held by an order");
        if reason == "a mistake" {
            stage.browser.click(".toast button", "Undo");
            await_state(&stage, "waiting");
            assert!(holds(&stage).is_empty(), "undone");
        }
    }
    stage.picture("held-light");

    stage.go("#/orders");
    stage.browser.click("tbody button", "Release…");
    stage.browser.until_text("1 message go back to their queues.");
    stage.browser.click("dialog button[type=submit]", "Release");
    stage.browser.until_text(&format!("Taken back: message {id}."));
    await_state(&stage, "waiting");
    assert!(holds(&stage).is_empty(), "released");
    // A release is a step that can be undone as well.
    stage.browser.click(".toast button", "Undo");
    stage.browser.until_text(&format!("In force again: message {id}."));
    await_state(&stage, "held");
    stage.browser.click("tbody button", "Release…");
    stage.browser.click("dialog button[type=submit]", "Release");
    await_state(&stage, "waiting");

    let tries = |stage: &Stage| get(&stage.relay, &format!("{MESSAGE}?id={id}"))["message"]["num_attempts"].clone();
    assert_eq!(tries(&stage), 1);
    stage.go(&format!("#/message?id={id}"));
    order(&mut stage, "Try now", "they are back");
    stage.browser.until_text("Nothing is done yet; closing this page undoes it.");
    stage.browser.click(".toast button", "Undo");
    stage.browser.until_text(&format!("Nothing was done to message {id}."));
    assert_eq!(tries(&stage), 1);
    order(&mut stage, "Try now", "they are back");
    stage.browser.click(".toast button", "Do it now");
    stage.browser.until_text(&format!("Made due: message {id}."));
    until(SOON, "another try", || (tries(&stage) == 2).then_some(()));
    stage.browser.until("[...document.querySelectorAll('.facts dt')].find(one => one.innerText === 'Attempts')?.nextElementSibling.innerText === '2'");
    assert_eq!(get(&stage.relay, "/api/admin/overview/v1")["totals"]["transient"], 17, "and nothing else was tried");
    assert_eq!(stage.browser.complaints(), Vec::<String>::new());
}

/// By a button of a message's page, with a reason.
fn order(stage: &mut Stage, button: &str, reason: &str) {
    stage.browser.click("main button", &format!("{button}…"));
    stage.browser.until_text("It concerns this message.");
    stage.browser.write(reason);
    stage.browser.click("dialog button[type=submit]", button);
}

const RECEIVED: &str = "total_messages_received{service=\"esmtp_listener\"}";
const DELIVERED: &str = "total_messages_delivered{service=\"smtp_client\"}";
const PUT_OFF: &str = "total_messages_transfail{service=\"smtp_client\"}";
const INBOUND: &str = "connection_count{service=\"esmtp_listener\"}";
/// Messages of a burst.
const BURST: u32 = 30;
/// Names of the messages that are shown.
const ROWS: &str = "[...document.querySelectorAll('tbody th a')].map(one => one.hash)";
/// Keeps in `told` what the server answers to the page about itself.
const RECORDER: &str = "window.told = []; const asked = window.fetch;
window.fetch = async (...of) => {
  const answer = await asked(...of);
  if (String(of[0]).includes('overview/v1')) window.told.push(await answer.clone().json());
  return answer;
};";
