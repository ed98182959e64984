//! `top`: the queues on a whole screen, again and again, until somebody has seen enough.
//!
//! Owns the options, the terminal, and the thread that reads its keys. In: keys, and what the server says every
//! `--update-interval`. Out: the lines of [`crate::screen`]. A server that does not answer is said in the last line, and asked
//! again. Fails only when there is no terminal. The terminal is put back as it was whatever happens.

use crate::output::Out;
use crate::queue_summary::Material;
use crate::screen::{Key, Screen, Todo};
use crate::server::Server;
use anyhow::{Context, Result, bail};
use clap::Args;
use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::terminal;
use std::io::{IsTerminal, Write};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// `top`
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Seconds between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    update_interval: u64,
}

pub(crate) async fn run(server: &Server, out: &mut Out<'_>, given: &Options) -> Result<()> {
    if out.json {
        bail!("top is for people: queue-summary --json and provider-summary --json say the same to machines");
    }
    if !std::io::stdout().is_terminal() {
        bail!("top needs a terminal on stdout: queue-summary prints the same once");
    }
    // Not SIGHUP: the terminal is gone then, and the thread that reads keys would never end.
    let end = signal(SignalKind::terminate()).context("signals cannot be awaited")?;
    terminal::enable_raw_mode().context("cannot take the terminal")?;
    let shown = out.out.write_all(BEGIN.as_bytes()).map_err(Into::into);
    let (keys, reading) = read_keys();
    let watched = match shown {
        Ok(()) => watch(server, out.out, keys, end, Screen::new(given.update_interval)).await,
        Err(error) => {
            drop(keys);
            Err(error)
        }
    };
    // The channel is closed by now, so the thread ends with its next look. It is waited for while the terminal gives every octet
    // at once: in line mode it could wait for the end of a line.
    // Where it is gone it could wait for ever.
    let joined = if watched.is_ok() { reading.join() } else { Ok(()) };
    let ended = out.out.write_all(END.as_bytes()).and_then(|()| out.out.flush());
    let restored = terminal::disable_raw_mode();
    watched?;
    ended?;
    restored?;
    joined.map_err(|_| anyhow::anyhow!("the thread that reads keys ended badly"))
}

/// Draws, and waits for a key, an answer, a signal, or the time of the next question.
async fn watch(
    server: &Server,
    out: &mut dyn Write,
    mut keys: mpsc::Receiver<Key>,
    mut end: Signal,
    mut screen: Screen,
) -> Result<()> {
    let mut asked = Box::pin(Material::fetch(server));
    let mut is_asking = true;
    let mut next = Instant::now();
    loop {
        let (width, height) = terminal::size().unwrap_or(SIZE);
        draw(out, &screen.lines(width.into(), height.into()))?;
        tokio::select! {
            key = keys.recv() => match key.map(|key| screen.press(key)) {
                None | Some(Todo::End) => return Ok(()),
                Some(Todo::Draw) => {}
            },
            _ = end.recv() => return Ok(()),
            answer = &mut asked, if is_asking => {
                is_asking = false;
                next = Instant::now() + screen.interval();
                match answer {
                    Ok(material) => screen.update(&material, std::time::Instant::now()),
                    Err(error) => screen.failed(&format!("{error:#}")),
                }
            }
            () = sleep_until(next), if !is_asking => {
                asked = Box::pin(Material::fetch(server));
                is_asking = true;
            }
        }
    }
}

fn draw(out: &mut dyn Write, lines: &[String]) -> Result<()> {
    let mut text = HOME.to_owned();
    for (at, line) in lines.iter().enumerate() {
        // A line end behind the last line would scroll.
        text.extend([if at > 0 { "\r\n" } else { "" }, line, REST_OF_LINE]);
    }
    text.push_str(REST_OF_SCREEN);
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// A thread that reads keys until nobody listens.
fn read_keys() -> (mpsc::Receiver<Key>, JoinHandle<()>) {
    let (sender, keys) = mpsc::channel(KEYS_MAX);
    let reading = thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(LOOK) {
                Ok(false) => {}
                Ok(true) => {
                    let Ok(event) = event::read() else { return };
                    if let Some(key) = key(&event) {
                        // Whoever does not listen any more is noticed above.
                        let _ = sender.blocking_send(key);
                    }
                }
                Err(_) => return,
            }
        }
    });
    (keys, reading)
}

fn key(event: &Event) -> Option<Key> {
    let pressed = match event {
        Event::Resize(..) => return Some(Key::Resize),
        Event::Key(pressed) if pressed.kind != KeyEventKind::Release => pressed,
        _ => return None,
    };
    if pressed.modifiers.contains(KeyModifiers::CONTROL) {
        return (pressed.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    Some(match pressed.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Esc => Key::Esc,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

/// The other screen, without a cursor.
const BEGIN: &str = "\u{1b}[?1049h\u{1b}[?25l";
/// Back.
const END: &str = "\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const REST_OF_LINE: &str = "\u{1b}[K";
const REST_OF_SCREEN: &str = "\u{1b}[J";
/// Of a terminal that does not say.
const SIZE: (u16, u16) = (80, 24);
/// How long a key is waited for before somebody looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// Keys that wait to be looked at.
const KEYS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crossterm::event::KeyEvent;

    #[test]
    fn keys_are_what_they_say() {
        let of = |code, modifiers| key(&Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Char('q')));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(of(KeyCode::PageDown, KeyModifiers::NONE), Some(Key::PageDown));
        assert_eq!(key(&Event::Resize(1, 1)), Some(Key::Resize));
    }

    #[test]
    fn a_screen_is_written_without_scrolling() {
        let mut out = Vec::new();
        draw(&mut out, &["a".to_owned(), "b".to_owned()]).expect("written");
        assert_eq!(String::from_utf8(out).expect("text"), "\u{1b}[Ha\u{1b}[K\r\nb\u{1b}[K\u{1b}[J");
    }
}
