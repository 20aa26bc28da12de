//! One plain table: headings on two lines, a rule below them, figures right-aligned, and never wider
//! than the page.

use comfy_table::{CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, TableStyle};

use super::WIDTH;

/// A heading on two lines, and how what is below it is aligned.
#[derive(Debug, Clone)]
pub(in crate::report) struct Column {
    heading: String,
    alignment: CellAlignment,
}

impl Column {
    /// A column of names.
    pub(super) fn word(above: &str, below: &str) -> Self {
        Self {
            heading: format!("{above}\n{below}"),
            alignment: CellAlignment::Left,
        }
    }

    /// The heading on one line.
    pub(in crate::report) fn name(&self) -> String {
        let (above, below) = self.heading.split_once('\n').unwrap_or((&self.heading, ""));
        match above.trim().strip_suffix('-') {
            Some(above) => format!("{above}{}", below.trim()),
            None => format!("{} {}", above.trim(), below.trim())
                .trim()
                .to_owned(),
        }
    }

    /// Whether figures stand below it.
    pub(in crate::report) fn is_figure(&self) -> bool {
        matches!(self.alignment, CellAlignment::Right)
    }

    /// A column of figures.
    pub(super) fn figure(above: &str, below: &str) -> Self {
        Self {
            heading: format!("{above}\n{below}"),
            alignment: CellAlignment::Right,
        }
    }
}

#[derive(Debug)]
pub(in crate::report) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(columns: &[Column]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with a cell for each column; a cell may have two lines.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// With two spaces between columns where the page is wide enough for it, else with one.
    pub(super) fn render(&self) -> String {
        let wide = self.with_gap(2);
        if fits(&wide) { wide } else { self.with_gap(1) }
    }

    /// Whether no line of it is wider than the page.
    pub(super) fn fits(&self) -> bool {
        fits(&self.render())
    }

    pub(in crate::report) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(in crate::report) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    fn with_gap(&self, gap: u16) -> String {
        let line = ContentLineStyle::none().junction(' ');
        let mut table = comfy_table::Table::new();
        table
            .load_style(
                TableStyle::new()
                    .header_lines(line)
                    .header_separator(LineStyle::none().fill('-').junction('-'))
                    .content_lines(line),
            )
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(self.columns.iter().map(|column| column.heading.clone()))
            .add_rows(self.rows.iter().cloned());
        for (index, (column, of)) in table.column_iter_mut().zip(&self.columns).enumerate() {
            column.set_padding((if index == 0 { 0 } else { gap - 1 }, 0));
            column.set_cell_alignment(of.alignment);
        }
        let mut text = String::new();
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn fits(text: &str) -> bool {
    text.lines().all(|line| line.len() <= WIDTH)
}
