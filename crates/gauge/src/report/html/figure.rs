//! A plot on the page: its name, its legend, the drawing, and what is to be seen; or why there is none.

use maud::{Markup, PreEscaped, html};

use super::draw::svg;
use super::pens::{Mark, Pen, hex, pen};
use super::plain;
use super::plots::{Place, Plot, Series, Shape};

pub(super) fn figure(place: &Place) -> Markup {
    html! {
        @match place {
            Place::Plot(plot) => (self::plot(plot)),
            Place::Absent(why) => p.absent { (plain(why)) },
        }
    }
}

fn plot(plot: &Plot) -> Markup {
    html! {
        figure {
            h3 { (plain(&plot.title)) }
            ul.legend { @for series in legend(plot) { li { (swatch(series)) (plain(&series.name)) } } }
            div.wide role="img" aria-label=(plain(&plot.title)) { (PreEscaped(svg(plot))) }
            figcaption { (plot.caption) " In the JSON: " code { (plain(&plot.source)) } }
        }
    }
}

/// One line for each pen and shape: what is drawn alike is named alike.
fn legend(plot: &Plot) -> Vec<&Series> {
    let mut named: Vec<&Series> = Vec::new();
    for series in &plot.series {
        let alike = |one: &&Series| {
            (one.look, one.shape, &one.name) == (series.look, series.shape, &series.name)
        };
        if !named.iter().any(alike) {
            named.push(series);
        }
    }
    named
}

/// The pen as it draws, on the scale of the drawings.
fn swatch(series: &Series) -> Markup {
    let pen = pen(series.look);
    let colour = hex(pen.light);
    let lined = series.shape != Shape::Marks;
    let marked = matches!(series.shape, Shape::Marks | Shape::MarkedLine);
    html! {
        svg viewBox="0 0 64 24" width="32" height="12" aria-hidden="true" {
            @if lined {
                polyline fill="none" stroke=(colour) stroke-width="4" points="0,12 64,12" {}
            }
            @if marked { (mark(pen)) }
        }
    }
}

fn mark(pen: Pen) -> Markup {
    let colour = hex(pen.light);
    html! {
        @match pen.mark {
            Mark::Disc => circle cx="32" cy="12" r="7" fill=(colour) {},
            Mark::Ring => circle cx="32" cy="12" r="8" fill="none" stroke=(colour) stroke-width="3" {},
            Mark::Square => rect x="26" y="6" width="12" height="12" fill=(colour) {},
            Mark::Triangle => polygon points="22,18 42,18 32,2" fill=(colour) {},
            Mark::Cross => path d="M24,4 L40,20 M40,4 L24,20" stroke=(colour) stroke-width="3" {},
            Mark::Plus => path d="M23,12 L41,12 M32,3 L32,21" stroke=(colour) stroke-width="3" {},
        }
    }
}
