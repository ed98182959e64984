//! Counters of ready queues and providers: which have series, that none falls, and that they add up.

use super::*;

fn text(tallies: &Tallies) -> String {
    let mut text = Exposition::after(String::new(), "total_messages_");
    tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
    text.into_text()
}

#[test]
fn a_queue_is_counted_until_it_is_forgotten_and_its_protocol_for_good() {
    let tallies = Tallies::default();
    let name: Arc<str> = "src->site@smtp_client".into();
    for tally in [tallies.of_protocol("smtp_client"), tallies.of_queue(&name), tallies.of_queue(&name)] {
        tally.delivered.fetch_add(2, Ordering::Relaxed);
    }
    let both = text(&tallies);
    assert!(both.contains("\ntotal_messages_delivered{service=\"smtp_client\"} 2\n"), "{both}");
    let own = "{service=\"smtp_client:src->site@smtp_client\"}";
    assert!(both.contains(&format!("\ntotal_messages_delivered{own} 4\n")), "{both}");
    assert!(both.contains(&format!("\ntotal_messages_fail{own} 0\n")), "{both}");
    assert_eq!((tallies.so_far(&name), tallies.total()), (Some([4, 0, 0]), [2, 0, 0]));
    tallies.forget(&name);
    assert_eq!((tallies.so_far(&name), tallies.total()), (None, [2, 0, 0]));
    let rest = text(&tallies);
    assert!(!rest.contains(own) && rest.contains("{service=\"smtp_client\"} 2\n"), "{rest}");
}

#[test]
fn connections_are_those_of_clients_of_protocols_and_of_queues() {
    let tallies = Tallies::default();
    tallies.inbound.fetch_add(3, Ordering::Relaxed);
    for tally in [tallies.of_protocol("smtp_client"), tallies.of_queue(&"q".into())] {
        tally.connections.fetch_add(2, Ordering::Relaxed);
    }
    let mut text = Exposition::after(String::new(), "total_connection");
    tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
    let expected = "# HELP total_connection_count connections ever opened\n# TYPE total_connection_count counter\n\
        total_connection_count{service=\"esmtp_listener\"} 3\ntotal_connection_count{service=\"smtp_client\"} 2\n\
        total_connection_count{service=\"smtp_client:q\"} 2\n";
    assert_eq!(text.into_text(), expected);
}

/// What goes on at a server with many ready queues.
#[derive(Default)]
struct Server {
    tallies: Tallies,
    /// What it did: the sum that the page is to have.
    delivered: u64,
    /// What the page said.
    told: HashMap<String, u64>,
}

impl Server {
    fn deliver(&mut self, queue: u64, count: u64) {
        let tallies = &self.tallies;
        for tally in [tallies.of_queue(&name(queue)), tallies.of_protocol("smtp_client")] {
            tally.delivered.fetch_add(count, Ordering::Relaxed);
        }
        self.delivered += count;
    }

    fn forget(&mut self, queue: u64) {
        self.tallies.forget(&name(queue));
        self.told.remove(&*name(queue));
    }

    /// The series of a page, which has an end and adds up, and in which nothing fell or went away.
    fn scrape(&mut self) -> &HashMap<String, u64> {
        let page = text(&self.tallies);
        let series = page.lines().filter_map(|line| {
            let line = line.strip_prefix("total_messages_delivered{service=\"")?;
            let (service, number) = line.split_once("\"} ").expect("a series");
            (service != "smtp_client").then(|| {
                let name = service.strip_prefix("smtp_client:").unwrap_or(service);
                (name.to_owned(), number.parse().expect("a number"))
            })
        });
        let told: HashMap<String, u64> = series.collect();
        assert!(told.len() <= SERIES_MAX + 1, "{}", told.len());
        assert_eq!(told.values().sum::<u64>(), self.delivered, "all of them together");
        for (name, number) in &self.told {
            let now = told.get(name);
            assert!(now.is_some_and(|now| now >= number), "{name}: {number} before, {now:?} now");
        }
        self.told = told;
        &self.told
    }
}

fn name(queue: u64) -> Arc<str> {
    format!("q{queue}").into()
}

#[test]
fn counters_of_many_queues_that_come_and_go_never_fall_and_add_up() {
    const QUEUES: u64 = 50_000;
    let mut server = Server::default();
    (0..QUEUES).for_each(|queue| server.deliver(queue, 1));
    assert_eq!(server.scrape().len(), SERIES_MAX + 1);
    // Those without series come to be the largest, and grow further.
    for round in 0..5 {
        (0..QUEUES).rev().step_by(7).for_each(|queue| server.deliver(queue, queue % 100));
        server.scrape();
        // Some of either kind are idle and dropped; others come, or the same again.
        (round..QUEUES).step_by(11).for_each(|queue| server.forget(queue));
        server.scrape();
        (round..QUEUES).step_by(22).for_each(|queue| server.deliver(queue, 3));
        assert_eq!(server.scrape().len(), SERIES_MAX + 1, "places are taken again");
    }
    // All but a few go: the series of those are there, and what the others counted.
    (10..QUEUES).for_each(|queue| server.forget(queue));
    (0..10).for_each(|queue| server.deliver(queue, 1));
    server.scrape();
    (0..10).for_each(|queue| server.deliver(queue, 1));
    assert_eq!(server.scrape().len(), 10 + 1);
    server.deliver(QUEUES, 9);
    assert_eq!(server.scrape()["q50000"], 9, "with room enough one is told from its beginning");
}

#[test]
fn a_place_that_comes_free_goes_to_the_largest() {
    let mut server = Server::default();
    let first = SERIES_MAX as u64;
    (0..first).for_each(|queue| server.deliver(queue, 1));
    for (queue, count) in [(first, 2), (first + 1, 30), (first + 2, 4)] {
        server.deliver(queue, count);
    }
    assert_eq!(server.scrape()[OTHER], 36, "whoever has a series keeps it");
    server.forget(5);
    // It comes too late for that place.
    server.deliver(first + 3, 1);
    server.deliver(first + 1, 10);
    let told = server.scrape();
    assert_eq!((told.get(&*name(first + 1)), told[OTHER]), (Some(&0), 48), "what it counted before is told");
    server.deliver(first + 1, 5);
    let told = server.scrape();
    assert_eq!((told[&*name(first + 1)], told[OTHER]), (5, 48));
    assert!(told.get(&*name(first + 3)).is_none());
    assert_eq!(server.tallies.so_far(&name(first + 1)), Some([45, 0, 0]), "who asks for one is told all");
}

#[test]
fn of_very_many_a_scrape_looks_at_some_and_the_next_at_others() {
    let mut server = Server::default();
    let first = SERIES_MAX as u64;
    let hidden = first..first + 2 * LOOK_MAX as u64 + 1;
    (0..first).chain(hidden.clone()).for_each(|queue| server.deliver(queue, 1));
    server.scrape();
    // Wherever they are among the others.
    let large: Vec<u64> = hidden.step_by(700).collect();
    large.iter().for_each(|queue| server.deliver(*queue, 100));
    let count = large.len() as u64;
    for round in 0..6 {
        (round * count..(round + 1) * count).for_each(|queue| server.forget(queue));
        server.scrape();
    }
    let without: Vec<_> = large.iter().filter(|queue| !server.told.contains_key(&*name(**queue))).collect();
    assert_eq!(without, Vec::<&u64>::new());
}

#[test]
fn what_is_counted_during_a_scrape_is_told_later() {
    let mut server = Server::default();
    server.deliver(0, 1);
    server.deliver(1, 1);
    server.forget(1);
    server.scrape();
    // In the queue already, in its protocol not yet.
    server.tallies.of_queue(&name(0)).delivered.fetch_add(4, Ordering::Relaxed);
    let page = text(&server.tallies);
    assert!(page.contains("{service=\"smtp_client:q0\"} 5\n"), "{page}");
    assert!(page.contains("{service=\"other\"} 1\n"), "{page}");
    server.tallies.of_protocol("smtp_client").delivered.fetch_add(4, Ordering::Relaxed);
    server.delivered += 4;
    assert_eq!(server.scrape()[OTHER], 1);
}

#[test]
fn providers_are_summed_and_there_is_an_end_to_them() {
    let tallies = Tallies::default();
    let way = |provider: &str, source: &str| [provider, source, "shared"].map(Into::into);
    for (provider, source) in [("big", "ip-1"), ("big", "ip-2"), ("big", "ip-2")] {
        tallies.of_way(&way(provider, source), true).delivered.fetch_add(1, Ordering::Relaxed);
    }
    let all = text(&tallies);
    assert!(all.contains("\ntotal_messages_delivered_by_provider{provider=\"big\"} 3\n"), "{all}");
    let own = "_by_provider_and_source{provider=\"big\",source=\"ip-2\",pool=\"shared\"} 2\n";
    assert!(all.contains(own), "{all}");
    for number in 0..=PROVIDERS_MAX {
        tallies.of_way(&way(&number.to_string(), "ip-1"), false).fail.fetch_add(1, Ordering::Relaxed);
    }
    let all = text(&tallies);
    assert!(all.contains("\ntotal_messages_fail_by_provider{provider=\"other\"} 1\n"), "{}", all.len());
    tallies.of_way(&way("late", "ip-1"), true).fail.fetch_add(1, Ordering::Relaxed);
    let all = text(&tallies);
    assert!(all.contains("\ntotal_messages_fail_by_provider{provider=\"late\"} 1\n"), "{}", all.len());
    assert!(Arc::ptr_eq(&tallies.of_way(&way("big", "ip-1"), true), &tallies.of_way(&way("big", "ip-1"), true)));
}

#[test]
fn connections_that_stood_still_are_told_where_there_were_any_and_there_is_an_end_to_them() {
    let tallies = Tallies::default();
    let shown = || {
        let mut text = Exposition::after(String::new(), "dispatcher_");
        tallies.expose(&mut text, |name| format!("smtp_client:{name}"));
        let text = text.into_text();
        let series = text.lines().filter_map(|line| line.strip_prefix("dispatcher_watchdog_aborted_total"));
        series.map(str::to_owned).collect::<Vec<_>>()
    };
    (0..4).for_each(|number| _ = tallies.of_queue(&format!("q{number}").into()));
    assert_eq!(shown(), [""; 0], "nothing stood still");
    for (name, times) in [("q1", 1), ("q2", 3), ("q3", 2)] {
        (0..times).for_each(|_| tallies.count_stuck("smtp_client", name));
    }
    let of_all = |stuck: u64| format!("{{service=\"smtp_client\"}} {stuck}");
    let own = |name: &str, stuck: u64| format!("{{service=\"smtp_client:{name}\"}} {stuck}");
    let other = |stuck: u64| format!("{{service=\"other\"}} {stuck}");
    assert_eq!(shown(), [of_all(6), own("q1", 1), own("q2", 3), own("q3", 2)]);
    tallies.count_stuck("smtp_client", "gone");
    tallies.forget("q3");
    assert_eq!(shown(), [of_all(7), own("q1", 1), own("q2", 3), other(3)], "what is gone is in the rest");
    // Of as many as a page has, and two more.
    for number in 0..SERIES_MAX {
        let name: Arc<str> = format!("r{number:05}").into();
        tallies.of_queue(&name);
        tallies.count_stuck("smtp_client", &name);
    }
    let page = shown();
    assert_eq!((page.len(), page.last()), (1 + SERIES_MAX + 1, Some(&other(5))));
    assert_eq!(page[0], of_all(7 + SERIES_MAX as u64));
}
