//! A table for people: aligned text for a terminal, or Markdown for a file. In: cells. Out: text.

/// A table under construction. The first column is words and stands left, the others are figures and stand right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this header.
    pub fn new(header: &[&str]) -> Table {
        Table { rows: vec![header.iter().map(|name| (*name).to_owned()).collect()] }
    }

    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// For a terminal.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let line = cells(row, &widths).collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                text.push_str(&rules.join("  "));
                text.push('\n');
            }
        }
        text
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&format!("| {} |\n", cells(row, &widths).collect::<Vec<_>>().join(" | ")));
            if number == 0 {
                let rule = |(column, width): (usize, &usize)| {
                    let dashes = "-".repeat((*width).max(2) - 1);
                    if column == 0 { format!("{dashes}-") } else { format!("{dashes}:") }
                };
                let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
                text.push_str(&format!("| {} |\n", rules.join(" | ")));
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell: &String| cell.chars().count()).max()
        };
        (0..columns).map(|column| width(column).unwrap_or_default()).collect()
    }
}

fn cells<'a>(row: &'a [String], widths: &'a [usize]) -> impl Iterator<Item = String> + 'a {
    widths.iter().enumerate().map(|(column, &width)| {
        let cell = row.get(column).map_or("", String::as_str);
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    })
}

/// A figure with so many decimals, or a dash where there is none.
pub fn figure(value: Option<f64>, decimals: usize) -> String {
    value.filter(|value| value.is_finite()).map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["run", "msg/s"]);
        table.row(vec!["10 KB".to_owned(), "8000".to_owned()]);
        table.row(vec!["100 KB, signed".to_owned()]);
        table
    }

    #[test]
    fn text_is_aligned() {
        let want = "run             msg/s\n--------------  -----\n10 KB            8000\n100 KB, signed\n";
        assert_eq!(table().text(), want);
    }

    #[test]
    fn markdown_is_a_table() {
        let want = "| run            | msg/s |\n| -------------- | ----: |\n| 10 KB          |  8000 |\n\
                    | 100 KB, signed |       |\n";
        assert_eq!(table().markdown(), want);
    }

    #[test]
    fn figures() {
        assert_eq!(figure(Some(1.26), 1), "1.3");
        assert_eq!(figure(None, 1), "-");
        assert_eq!(figure(Some(f64::NAN), 0), "-");
    }
}
