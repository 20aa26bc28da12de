//! A part of a report in words and tables before it has a shape: the terminal's page, Markdown and HTML
//! are made of the same sections, so that all three say the same.

use super::lines::{ascii, wrapped};
use super::table::Table;

/// What belongs together, in its order.
#[derive(Debug, Default)]
pub(in crate::report) struct Section {
    blocks: Vec<Block>,
}

/// One piece of a section.
#[derive(Debug)]
pub(in crate::report) enum Block {
    /// What the following is.
    Title(Sentence),
    /// A sentence or a few.
    Words(Sentence),
    /// Figures in columns.
    Table(Table),
    /// Lines that other programs and eyes know as they are.
    Lines(String),
}

/// Words, and how far their further lines are indented on a terminal.
#[derive(Debug)]
pub(in crate::report) struct Sentence {
    text: String,
    indent: &'static str,
}

impl Section {
    pub(super) fn title(&mut self, text: impl Into<String>, indent: &'static str) {
        let text = text.into();
        self.blocks.push(Block::Title(Sentence { text, indent }));
    }

    pub(super) fn words(&mut self, text: impl Into<String>, indent: &'static str) {
        let text = text.into();
        self.blocks.push(Block::Words(Sentence { text, indent }));
    }

    pub(super) fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    pub(super) fn lines(&mut self, lines: impl Into<String>) {
        self.blocks.push(Block::Lines(lines.into()));
    }

    pub(in crate::report) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(in crate::report) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// As a terminal shows it, each line at most as wide as the page.
    pub(super) fn render(&self) -> String {
        let each = self.blocks.iter().map(|block| match block {
            Block::Title(sentence) | Block::Words(sentence) => {
                wrapped(&sentence.text, sentence.indent)
            }
            Block::Table(table) => table.render(),
            Block::Lines(lines) => lines.clone(),
        });
        each.collect()
    }
}

impl Sentence {
    /// The words without what places them on a terminal, where a dash leads what belongs to a table.
    pub(in crate::report) fn plain(&self) -> &str {
        self.text.trim().trim_start_matches("- ")
    }
}

/// One below the other, an empty line between them; empty ones are left out.
pub(super) fn page(sections: &[Section]) -> String {
    let full = sections.iter().filter(|section| !section.is_empty());
    let full: Vec<String> = full.map(Section::render).collect();
    ascii(&full.join("\n"))
}
