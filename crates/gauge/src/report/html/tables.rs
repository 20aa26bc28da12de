//! The sections of the terminal's page as HTML: the same words, the same figures.

use maud::{Markup, html};

use super::plain;
use crate::report::text::section::{Block, Section};
use crate::report::text::table::Table;

pub(super) fn sections(sections: &[Section]) -> Markup {
    html! {
        @for section in sections {
            @for block in section.blocks() { (self::block(block)) }
        }
    }
}

fn block(block: &Block) -> Markup {
    html! {
        @match block {
            Block::Title(title) => h3 { (plain(title.plain())) },
            Block::Words(words) => p { (plain(words.plain())) },
            Block::Table(table) => (self::table(table)),
            Block::Lines(lines) => div.wide { pre { (plain(lines)) } },
        }
    }
}

fn table(table: &Table) -> Markup {
    let columns = table.columns();
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        @for column in columns {
                            th scope="col" class=[column.is_figure().then_some("n")] {
                                (plain(&column.name()))
                            }
                        }
                    }
                }
                tbody {
                    @for row in table.rows() {
                        tr {
                            @for (column, cell) in columns.iter().zip(row) {
                                td class=[column.is_figure().then_some("n")] {
                                    // Figures, and below them their interval.
                                    @for (line, text) in cell.trim().lines().enumerate() {
                                        @if line > 0 { br; }
                                        (plain(text))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
