//! What the verbs write with: where their words go, tables, JSON as people read it.
//!
//! Owns [`Out`] and [`Table`]. What a server says goes to stdout in a form that scripts may rely on; what is said about it
//! goes to stderr. Text that others chose (names, reasons) cannot break a line or move the cursor.

use anyhow::Result;
use serde_json::Value;
use std::io::Write;

/// Where the words of a verb go.
pub(crate) struct Out<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Notes.
    pub notes: &'a mut dyn Write,
    /// `--json`: results are the server's own.
    pub json: bool,
}

impl Out<'_> {
    /// A line of result.
    pub fn line(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.out, "{text}")?)
    }

    /// JSON, indented by two.
    pub fn pretty(&mut self, value: &Value) -> Result<()> {
        self.line(&serde_json::to_string_pretty(value)?)
    }

    /// A line to the person at the terminal; nothing under `--json`.
    pub fn note(&mut self, text: &str) -> Result<()> {
        match self.json {
            true => Ok(()),
            false => Ok(writeln!(self.notes, "{text}")?),
        }
    }

    /// What the server said in plain words.
    pub fn said(&mut self, text: &str) -> Result<()> {
        let text = text.trim_end();
        match (self.json, text) {
            (true, _) => self.pretty(&serde_json::json!({"message": text})),
            (false, "") => Ok(()),
            (false, _) => self.line(text),
        }
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> Result<()> {
        Ok(self.out.write_all(table.text().as_bytes())?)
    }
}

/// An option with a value that others chose, as a shell takes it.
pub(crate) fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{between}{}", quoted(value))
}

/// An argument that others chose, as a shell takes it.
pub(crate) fn argument(value: &str) -> String {
    let before = if value.starts_with('-') { "-- " } else { "" };
    format!("{before}{}", quoted(value))
}

fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@:!._+/-".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('!') {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Columns of text under headings.
pub(crate) struct Table {
    headings: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// A heading, and to which side its column leans.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    /// Words.
    Left(&'static str),
    /// Numbers.
    Right(&'static str),
}

impl Table {
    /// A table without rows.
    pub fn new(headings: &[Column]) -> Table {
        Table { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; as many cells as there are headings.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| shown(&cell)).collect();
        debug_assert_eq!(cells.len(), self.headings.len());
        self.rows.push(cells);
    }

    /// Its lines; the last column is not filled up with blanks.
    pub fn lines(&self) -> Vec<String> {
        let widths: Vec<usize> = (0..self.headings.len()).map(|at| self.width(at)).collect();
        let headings: Vec<String> = self.headings.iter().map(|heading| heading.name().to_owned()).collect();
        let line = |cells: &Vec<String>| {
            let mut line = String::new();
            for ((cell, column), width) in cells.iter().zip(&self.headings).zip(&widths) {
                let blanks = " ".repeat(width - cell.chars().count());
                match column {
                    Column::Left(_) => line.extend([cell, blanks.as_str()]),
                    Column::Right(_) => line.extend([blanks.as_str(), cell]),
                }
                line.push_str(BETWEEN);
            }
            line.truncate(line.trim_end().len());
            line
        };
        core::iter::once(&headings).chain(&self.rows).map(line).collect()
    }

    /// Its lines as text.
    pub fn text(&self) -> String {
        self.lines().iter().flat_map(|line| [line.as_str(), "\n"]).collect()
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([self.headings[at].name().len()]).max().unwrap_or_default()
    }
}

impl Column {
    fn name(self) -> &'static str {
        let (Column::Left(name) | Column::Right(name)) = self;
        name
    }
}

/// Text that others chose, on one line and without control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Marks that turn the direction of what follows count as control characters.
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// A JSON value in a line of text: a string without its quotes, nothing for null.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => shown(text),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A number of things: whole, as counts are.
pub(crate) fn count(number: f64) -> String {
    format!("{number:.0}")
}

const BETWEEN: &str = "  ";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_lean_to_their_side_and_lines_end_with_a_word() {
        let mut table = Table::new(&[Column::Left("SITE"), Column::Right("D"), Column::Left("")]);
        table.row(["a.example".to_owned(), "5".to_owned(), "suspended".to_owned()]);
        table.row(["ü".to_owned(), "1000".to_owned(), String::new()]);
        assert_eq!(table.text(), "SITE          D\na.example     5  suspended\nü          1000\n");
        assert_eq!(Table::new(&[Column::Left("ID")]).text(), "ID\n");
    }

    #[test]
    fn what_others_chose_stays_on_its_line() {
        assert_eq!(shown("a\r\nb\u{1b}[31m\u{202e}x"), "a\\r\\nb\\u{1b}[31m\\u{202e}x");
        assert_eq!(plain(&json!(["a", 1, null])), "a, 1, ");
    }

    #[test]
    fn what_others_chose_is_one_word_of_a_command() {
        assert_eq!(option("--queue", "c:t@a.test!b.test"), "--queue c:t@a.test!b.test");
        assert_eq!(option("--queue", "$(x);it's"), r"--queue '$(x);it'\''s'");
        assert_eq!(option("--queue", "-x@a.test"), "--queue=-x@a.test");
        assert_eq!((argument("a.test"), argument("-a b")), ("a.test".to_owned(), "-- '-a b'".to_owned()));
        assert_eq!((argument("!x"), argument("")), ("'!x'".to_owned(), "''".to_owned()));
    }

    #[test]
    fn words_of_a_server_are_json_when_that_is_asked_for() {
        let written = |json: bool, text: &str| {
            let (mut out, mut notes) = (Vec::new(), Vec::new());
            let mut to = Out { out: &mut out, notes: &mut notes, json };
            to.said(text).and_then(|()| to.note("note")).expect("written");
            (String::from_utf8(out).expect("text"), String::from_utf8(notes).expect("text"))
        };
        assert_eq!(written(false, "removed x\n"), ("removed x\n".to_owned(), "note\n".to_owned()));
        assert_eq!(written(false, ""), (String::new(), "note\n".to_owned()));
        assert_eq!(written(true, "removed x\n"), ("{\n  \"message\": \"removed x\"\n}\n".to_owned(), String::new()));
    }
}
