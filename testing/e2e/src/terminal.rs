//! A program on a pseudo-terminal, and what somebody sees who sits there: `peers/terminal.py`, and the screen that comes of its octets.
//!
//! In: a command, keys, sizes. Out: the screen, line by line; how the program ended and left the terminal. The screen knows the
//! few sequences that our program writes; any other is a panic, so that nothing is shown here that a terminal would not show.

use crate::peers;
use crate::process::Process;
use crate::scratch::Scratch;
use crate::until::{SOON, eventually};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command};

/// A terminal on which a program runs.
#[derive(Debug)]
pub struct Terminal {
    process: Process,
    acts: ChildStdin,
    log: PathBuf,
    /// Sizes it had, rows and columns, and behind how many octets it got them.
    sizes: Vec<(usize, [usize; 2])>,
}

/// What is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The lines, without blanks at their ends.
    pub lines: Vec<String>,
    /// It is the other screen, which leaves what was there before alone.
    pub is_other: bool,
    /// There is a cursor.
    pub has_cursor: bool,
    /// Nothing is half drawn, and nothing that was drawn since the corner was too wide or too high.
    pub is_whole: bool,
}

/// How a program left its terminal.
#[derive(Debug)]
pub struct Left {
    /// Exit code; minus the signal that ended it.
    pub status: i64,
    /// What is seen.
    pub picture: Picture,
    /// The terminal is as it was: cooked, in every setting.
    pub is_restored: bool,
    /// It was raw when keys were typed last.
    pub was_raw: bool,
    /// All that it ever wrote.
    pub written: String,
}

impl Terminal {
    /// Runs a command on a terminal of so many rows and columns.
    pub fn run(scratch: &Scratch, [rows, columns]: [usize; 2], command: &Command) -> Terminal {
        let log = scratch.join("terminal.log");
        let mut script = peers::script("terminal.py");
        script.arg(&log).args([rows, columns].map(|size| size.to_string()));
        script.arg(command.get_program()).args(command.get_args());
        let (process, acts) = Process::spawn_listening("terminal.py", script);
        Terminal { process, acts, log, sizes: vec![(0, [rows, columns])] }
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.act(&json!({"keys": keys}));
    }

    /// Changes its size. What is there is redrawn by the program.
    pub fn resize(&mut self, size: [usize; 2]) {
        let drawn = self.written().rfind(DRAWN).map_or(0, |at| at + DRAWN.len());
        self.sizes.push((drawn, size));
        self.act(&json!({"size": size}));
    }

    /// Signals the program.
    pub fn signal(&mut self, signal: Signal) {
        self.act(&json!({"signal": signal as i32}));
    }

    /// What is seen now.
    pub fn picture(&self) -> Picture {
        let written = self.written();
        let mut screen = Screen::new(self.sizes[0].1);
        let mut done = 0;
        for (at, size) in &self.sizes {
            screen.write(&written[done..*at]);
            screen.resize(*size);
            done = *at;
        }
        screen.write(&written[done..]);
        screen.picture()
    }

    /// What is found on the screen, as soon as it is there and wholly drawn.
    pub fn await_picture<T>(&self, what: &str, mut find: impl FnMut(&[String]) -> Option<T>) -> T {
        let found =
            eventually(SOON, || Some(self.picture()).filter(|seen| seen.is_whole).and_then(|seen| find(&seen.lines)));
        found.unwrap_or_else(|| panic!("{what} is not seen within {SOON:?}:\n{}", self.picture().lines.join("\n")))
    }

    /// Takes the terminal away, as when its window is closed, and waits for the program's end: its status.
    pub fn hang_up(self) -> i64 {
        let Terminal { mut process, acts, .. } = self;
        drop(acts);
        told(&mut process)["status"].as_i64().expect("a status")
    }

    /// Waits for the end.
    pub fn end(mut self) -> Left {
        let told = told(&mut self.process);
        Left {
            status: told["status"].as_i64().expect("a status"),
            picture: self.picture(),
            is_restored: told["before"] == true && told["after"] == true && told["same"] == true,
            was_raw: told["during"] == false,
            written: self.written(),
        }
    }

    fn act(&mut self, act: &Value) {
        writeln!(self.acts, "{act}").expect("terminal.py listens");
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

/// What is told of the program once it has ended.
fn told(process: &mut Process) -> Value {
    serde_json::from_str(&process.finish(SOON).success().stdout).expect("JSON")
}

/// What ends a drawing.
const DRAWN: &str = "\u{1b}[J";

/// The cells of a terminal, and of the screen that is not shown.
struct Screen {
    columns: usize,
    cells: Vec<Vec<char>>,
    hidden: Vec<Vec<char>>,
    row: usize,
    column: usize,
    is_other: bool,
    has_cursor: bool,
    is_drawn: bool,
    has_room: bool,
}

impl Screen {
    fn new([rows, columns]: [usize; 2]) -> Screen {
        let blank = vec![vec![' '; columns]; rows];
        let (cells, hidden) = (blank.clone(), blank);
        let (is_other, has_cursor, is_drawn, has_room) = (false, true, false, true);
        Screen { columns, cells, hidden, row: 0, column: 0, is_other, has_cursor, is_drawn, has_room }
    }

    fn resize(&mut self, [rows, columns]: [usize; 2]) {
        self.columns = columns;
        for cells in [&mut self.cells, &mut self.hidden] {
            cells.resize(rows, Vec::new());
            cells.iter_mut().for_each(|line| line.resize(columns, ' '));
        }
    }

    /// A sequence whose end has not come yet is left alone.
    fn write(&mut self, mut text: &str) {
        while let Some(c) = text.chars().next() {
            let Some(sequence) = text.strip_prefix("\u{1b}[") else {
                self.put(c);
                text = &text[c.len_utf8()..];
                continue;
            };
            let Some(end) = sequence.find(|c: char| c.is_ascii_alphabetic()) else { return };
            self.obey(&sequence[..=end]);
            text = &sequence[end + 1..];
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\r' => self.column = 0,
            '\n' if self.row + 1 < self.cells.len() => self.row += 1,
            '\n' => {
                self.has_room = false;
                self.cells.remove(0);
                self.cells.push(vec![' '; self.columns]);
            }
            // Half a sequence, at the end.
            '\u{1b}' => {}
            c if self.column < self.columns => {
                assert!(!c.is_control(), "{c:?} in column {}", self.column);
                self.cells[self.row][self.column] = c;
                self.column += 1;
            }
            _ => self.has_room = false,
        }
    }

    fn obey(&mut self, sequence: &str) {
        match sequence {
            "H" => {
                (self.row, self.column) = (0, 0);
                (self.is_drawn, self.has_room) = (false, true);
            }
            "K" => self.blank_line(),
            "J" => {
                self.blank_line();
                self.cells[self.row + 1..].iter_mut().for_each(|line| line.fill(' '));
                self.is_drawn = true;
            }
            "?25l" | "?25h" => self.has_cursor = sequence.ends_with('h'),
            "?1049l" | "?1049h" if self.is_other == sequence.ends_with('h') => {}
            "?1049l" | "?1049h" => {
                self.is_other = !self.is_other;
                std::mem::swap(&mut self.cells, &mut self.hidden);
            }
            other => panic!("the sequence ESC[{other}"),
        }
    }

    fn blank_line(&mut self) {
        self.cells[self.row][self.column.min(self.columns)..].fill(' ');
    }

    fn picture(&self) -> Picture {
        let line = |cells: &Vec<char>| cells.iter().collect::<String>().trim_end().to_owned();
        Picture {
            lines: self.cells.iter().map(line).collect(),
            is_other: self.is_other,
            has_cursor: self.has_cursor,
            is_whole: self.is_drawn && self.has_room,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Picture {
        let mut screen = Screen::new([3, 6]);
        screen.write(text);
        screen.picture()
    }

    #[test]
    fn what_is_written_over_is_gone() {
        let picture = shown("\u{1b}[Hfirst\u{1b}[K\r\nsecond\r\nthird\u{1b}[Hnew\u{1b}[K\r\nx\u{1b}[J");
        assert_eq!(picture.lines, ["new", "x", ""]);
    }

    #[test]
    fn the_other_screen_leaves_this_one_alone() {
        let other = "shell\r\n\u{1b}[?1049h\u{1b}[?25l\u{1b}[Hother\u{1b}[K";
        assert_eq!(
            (shown(other).lines[0].as_str(), shown(other).is_other, shown(other).has_cursor),
            ("other", true, false)
        );
        let back = shown(&format!("{other}\u{1b}[?25h\u{1b}[?1049l"));
        assert_eq!((back.lines[0].as_str(), back.is_other, back.has_cursor), ("shell", false, true));
    }

    #[test]
    fn a_line_end_at_the_bottom_scrolls() {
        assert_eq!(shown("a\r\nb\r\nc\r\nd").lines, ["b", "c", "d"]);
        assert_eq!(shown("a\u{1b}[").lines[0], "a", "half a sequence");
    }

    #[test]
    fn half_a_drawing_and_one_too_large_are_not_whole() {
        for (text, is_whole) in [
            ("\u{1b}[Ha\r\nb\r\nsixsix\u{1b}[K\u{1b}[J", true),
            ("\u{1b}[Ha", false),
            ("\u{1b}[Ha\r\nb\r\nsevenen\u{1b}[J", false),
            ("\u{1b}[Ha\r\nb\r\nc\r\nd\u{1b}[J", false),
        ] {
            assert_eq!(shown(text).is_whole, is_whole, "{text:?}");
        }
    }
}
