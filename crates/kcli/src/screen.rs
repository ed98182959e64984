//! What `top` shows, and what keys do to it.
//!
//! Owns [`Screen`]. In: what the server said and when, keys, the size of the terminal. Out: lines that fit. Pure, so that it is
//! tested without a terminal. Rates are what came since the look before, a second.

use crate::metrics::Metrics;
use crate::output::{Table, count, shown};
use crate::provider_summary::Providers;
use crate::queue_summary::{Material, Summary};
use std::time::{Duration, Instant};

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Esc,
    Enter,
    Backspace,
    Tab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
    /// The terminal has another size.
    Resize,
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    Draw,
    End,
}

/// The state of the screen.
pub(crate) struct Screen {
    interval_s: u64,
    view: View,
    filter: String,
    /// Keys go into the filter.
    is_filtering: bool,
    /// Rows above the first that is shown; drawing takes back what is beyond the last page.
    above: usize,
    /// Rows that fit, as of the last drawing.
    page: usize,
    tables: [Vec<String>; VIEWS.len()],
    head: [String; 2],
    /// Totals, and when they were so.
    last: Option<(Instant, [f64; 4])>,
    failure: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    Ready,
    Scheduled,
    Providers,
}

impl Screen {
    /// Nothing is known yet.
    pub fn new(interval_s: u64) -> Screen {
        Screen {
            interval_s,
            view: View::Ready,
            filter: String::new(),
            is_filtering: false,
            above: 0,
            page: 1,
            tables: Default::default(),
            head: ["waiting for the server".to_owned(), String::new()],
            last: None,
            failure: None,
        }
    }

    /// Between two looks.
    pub fn interval(&self) -> Duration {
        Duration::from_secs(self.interval_s)
    }

    /// The server has spoken.
    pub fn update(&mut self, material: &Material, at: Instant) {
        self.failure = None;
        let metrics = &material.metrics;
        let mut summary = Summary::new(material);
        summary.by_volume();
        let providers = Providers::new(metrics, false).table(None);
        self.tables = [summary.ready_table(), summary.scheduled_table(), providers].map(|table| Table::lines(&table));
        let number = |name: &str| metrics.number(name).map_or("?".to_owned(), count);
        let memory = metrics.number("memory_usage").map_or("?".to_owned(), |octets| count(octets / MEBIBYTE));
        self.head[0] = format!(
            "messages {}   scheduled {} in {} queues   memory {memory} MiB",
            number("message_count"),
            number("scheduled_count_total"),
            number("scheduled_queue_count")
        );
        let totals = TOTALS.map(|(_, name)| of_kinds(metrics, name));
        let since = self.last.map(|(then, before)| (at.duration_since(then).as_secs_f64(), before));
        let rates = TOTALS.iter().zip(totals).enumerate().map(|(index, ((name, _), total))| match since {
            // A server that began anew counts from nothing.
            Some((seconds, before)) if seconds > 0.0 => {
                format!("{name} {:.1}/s", (total - before[index]).max(0.0) / seconds)
            }
            _ => format!("{name} -"),
        });
        self.head[1] = rates.collect::<Vec<_>>().join("   ");
        self.last = Some((at, totals));
    }

    /// The server has not.
    pub fn failed(&mut self, why: &str) {
        self.failure = Some(shown(why));
    }

    /// Somebody pressed a key.
    pub fn press(&mut self, key: Key) -> Todo {
        if key == Key::Interrupt {
            return Todo::End;
        }
        if self.is_filtering {
            self.filter_key(key);
            return Todo::Draw;
        }
        match key {
            Key::Char('q') | Key::Esc => return Todo::End,
            Key::Char('f') => self.is_filtering = true,
            Key::Char('+') => self.interval_s = (self.interval_s + 1).min(INTERVAL_S_MAX),
            Key::Char('-') => self.interval_s = self.interval_s.saturating_sub(1).max(1),
            Key::Tab => {
                self.view = VIEWS[(self.view as usize + 1) % VIEWS.len()].0;
                self.above = 0;
            }
            Key::Up => self.above = self.above.saturating_sub(1),
            Key::Down => self.above = self.above.saturating_add(1),
            Key::PageUp => self.above = self.above.saturating_sub(self.page),
            Key::PageDown => self.above = self.above.saturating_add(self.page),
            Key::Home => self.above = 0,
            Key::End => self.above = usize::MAX,
            _ => {}
        }
        Todo::Draw
    }

    fn filter_key(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => _ = self.filter.pop(),
            Key::Enter => self.is_filtering = false,
            Key::Esc => {
                self.filter.clear();
                self.is_filtering = false;
            }
            _ => {}
        }
        self.above = 0;
    }

    /// The screen, at most so many lines of so many characters.
    pub fn lines(&mut self, width: usize, height: usize) -> Vec<String> {
        self.page = height.saturating_sub(AROUND).max(1);
        self.above = self.above.min(self.rows().len().saturating_sub(self.page));
        let mut lines = self.head.to_vec();
        lines.push(self.tabs());
        lines.push(self.tables[self.view as usize].first().cloned().unwrap_or_default());
        lines.extend(self.rows().into_iter().skip(self.above).take(self.page).cloned());
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), String::new());
        lines.push(match &self.failure {
            Some(why) => format!("NO ANSWER: {why}"),
            None => format!("{HELP}   every {} s", self.interval_s),
        });
        lines.into_iter().map(|line| line.chars().take(width).collect()).collect()
    }

    fn tabs(&self) -> String {
        let names = VIEWS.iter().map(|(view, name)| match *view == self.view {
            true => format!("[{name}]"),
            false => format!(" {name} "),
        });
        let tabs = names.collect::<Vec<_>>().join(" ");
        match (self.is_filtering, self.filter.is_empty()) {
            (true, _) => format!("{tabs}   filter: {}_", self.filter),
            (false, false) => format!("{tabs}   filter: {}", self.filter),
            (false, true) => tabs,
        }
    }

    /// The rows of the view that hold the filter's text.
    fn rows(&self) -> Vec<&String> {
        let wanted = self.filter.to_lowercase();
        let rows = self.tables[self.view as usize].iter().skip(1);
        rows.filter(|row| wanted.is_empty() || row.to_lowercase().contains(&wanted)).collect()
    }
}

/// A count of messages, of all services; each also has one for its parts, which has a colon, or is of all parts that have none.
fn of_kinds(metrics: &Metrics, name: &str) -> f64 {
    let services = metrics.by(name, "service");
    let kinds = services.iter().filter(|(service, _)| !service.contains(':') && *service != "other");
    kinds.map(|(_, value)| value).sum()
}

const VIEWS: [(View, &str); 3] =
    [(View::Ready, "ready queues"), (View::Scheduled, "scheduled queues"), (View::Providers, "providers")];
const TOTALS: [(&str, &str); 4] = [
    ("received", "total_messages_received"),
    ("delivered", "total_messages_delivered"),
    ("transient", "total_messages_transfail"),
    ("failed", "total_messages_fail"),
];
const HELP: &str = "q quit   f filter   Tab next   arrows PgUp PgDn Home End move   +/- interval";
/// Lines around the rows: two of the head, tabs, headings, help.
const AROUND: usize = 5;
const INTERVAL_S_MAX: u64 = 3600;
const MEBIBYTE: f64 = 1_048_576.0;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn material(delivered: u32, queues: usize) -> Material {
        let scheduled: serde_json::Map<_, _> = (0..queues).map(|n| (format!("d{n:02}.test"), json!(n + 1))).collect();
        let metrics = Metrics::new(json!({
            "message_count": {"value": 7}, "memory_usage": {"value": 2 * 1024 * 1024},
            "total_messages_delivered": {"value": {"service": {"smtp_client": delivered, "smtp_client:s->a@smtp_client": delivered, "other": delivered}}},
            "scheduled_count": {"value": {"queue": scheduled}},
        }));
        Material { metrics: metrics.expect("an object"), ..Material::default() }
    }

    fn shown_screen(queues: usize) -> Screen {
        let mut screen = Screen::new(1);
        screen.update(&material(10, queues), Instant::now());
        screen
    }

    #[test]
    fn a_look_shows_counts_and_the_second_rates() {
        let mut screen = Screen::new(2);
        let begin = Instant::now();
        screen.update(&material(10, 1), begin);
        assert!(screen.lines(100, 10)[1].contains("delivered -"), "nothing is known of before");
        screen.update(&material(30, 1), begin + Duration::from_secs(2));
        let lines = screen.lines(100, 10);
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0], "messages 7   scheduled ? in ? queues   memory 2 MiB");
        assert!(lines[1].contains("delivered 10.0/s") && lines[1].contains("received 0.0/s"), "{}", lines[1]);
        assert!(lines[4].starts_with("a     s       smtp_client  30"), "{lines:?}");
        assert!(lines[9].ends_with("every 2 s"));
        screen.update(&material(0, 1), begin + Duration::from_secs(3));
        assert!(screen.lines(100, 10)[1].contains("delivered 0.0/s"), "a server that began anew");
    }

    #[test]
    fn keys_move_within_what_there_is() {
        let mut screen = shown_screen(20);
        assert_eq!(screen.press(Key::Tab), Todo::Draw);
        let first = |screen: &mut Screen| screen.lines(80, 15)[4].split(' ').next().expect("a name").to_owned();
        assert_eq!(first(&mut screen), "d19.test", "the largest");
        for (key, name) in [
            (Key::Down, "d18.test"),
            (Key::Up, "d19.test"),
            (Key::Up, "d19.test"),
            (Key::PageDown, "d09.test"),
            (Key::PageDown, "d09.test"),
            (Key::PageUp, "d19.test"),
            (Key::End, "d09.test"),
            (Key::Home, "d19.test"),
        ] {
            screen.press(key);
            assert_eq!(first(&mut screen), name, "{key:?}");
        }
        assert_eq!([Key::Char('q'), Key::Esc, Key::Interrupt].map(|key| screen.press(key)), [Todo::End; 3]);
    }

    #[test]
    fn a_filter_is_typed_kept_and_given_up() {
        let mut screen = shown_screen(20);
        screen.press(Key::Tab);
        "fD1q".chars().for_each(|c| assert_eq!(screen.press(Key::Char(c)), Todo::Draw, "{c} is text"));
        screen.press(Key::Backspace);
        assert!(screen.lines(80, 30)[2].ends_with("filter: D1_"));
        screen.press(Key::Enter);
        let lines = screen.lines(80, 30);
        assert!(lines[2].ends_with("filter: D1") && lines[4].starts_with("d19") && lines[14].is_empty(), "{lines:?}");
        screen.press(Key::Char('f'));
        screen.press(Key::Esc);
        assert!(screen.lines(80, 30)[23].starts_with("d00"), "all again");
    }

    #[test]
    fn a_screen_fits_whatever_its_size() {
        let mut screen = shown_screen(20);
        for (width, height) in [(80, 24), (10, 5), (3, 2), (1, 1), (0, 0)] {
            let lines = screen.lines(width, height);
            assert!(
                lines.len() <= height.max(1) && lines.iter().all(|line| line.chars().count() <= width),
                "{lines:?}"
            );
        }
        "+++-".chars().for_each(|c| _ = screen.press(Key::Char(c)));
        assert_eq!(screen.interval(), Duration::from_secs(3));
        screen.failed("nobody\nis there");
        assert_eq!(screen.lines(80, 24)[23], "NO ANSWER: nobody\\nis there");
    }
}
