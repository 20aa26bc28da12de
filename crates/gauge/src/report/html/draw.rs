//! A plot as SVG. Nothing is computed here but where a point lies on the sheet.

use std::io;

use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{Circle, Cross, EmptyElement, PathElement, Rectangle, TriangleMarker};
use plotters::prelude::*;

use super::pens::{GRID, INK, Mark, Pen, pen};
use super::plots::{Plot, Series, Shape};
use super::ticks::Ruler;

type Sheet<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ruler, Ruler>>;
type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// The drawing, an `svg` element that scales to the width it is given.
pub(super) fn svg(plot: &Plot) -> String {
    let mut text = String::new();
    let backend = SVGBackend::with_string(&mut text, SIZE);
    draw(plot, backend).expect("a string takes whatever is drawn");
    text
}

fn draw(plot: &Plot, backend: SVGBackend<'_>) -> Drawn {
    let values = plot.series.iter().flat_map(|series| &series.points);
    let x = Ruler::new(&plot.x, values.clone().map(|point| point.0));
    let y = Ruler::new(&plot.y, values.map(|point| point.1));
    let root = backend.into_drawing_area();
    let mut sheet = ChartBuilder::on(&root)
        .margin(12)
        .margin_right(40)
        .x_label_area_size(92)
        .y_label_area_size(150)
        .build_cartesian_2d(x, y)?;
    let written = ("sans-serif", TEXT).into_font().color(&INK);
    sheet
        .configure_mesh()
        .axis_style(INK.stroke_width(2))
        .bold_line_style(GRID.stroke_width(2))
        .light_line_style(TRANSPARENT)
        .label_style(written.clone())
        .axis_desc_style(written)
        .x_desc(plot.x.name)
        .y_desc(plot.y.name)
        .draw()?;
    for series in &plot.series {
        draw_series(&mut sheet, series)?;
    }
    root.present()
}

fn draw_series(sheet: &mut Sheet<'_, '_>, series: &Series) -> Drawn {
    let pen = pen(series.look);
    let points = series.points.iter().copied();
    match series.shape {
        Shape::Line => line(sheet, points.collect(), pen),
        Shape::MarkedLine => {
            line(sheet, points.clone().collect(), pen)?;
            marks(sheet, points, pen)
        }
        Shape::Steps => line(sheet, steps(points), pen),
        Shape::Marks => marks(sheet, points, pen),
    }
}

fn line(sheet: &mut Sheet<'_, '_>, points: Vec<(f64, f64)>, pen: Pen) -> Drawn {
    let path = PathElement::new(points, pen.light.stroke_width(4));
    sheet.draw_series([path]).map(|_| ())
}

/// Each level holds to the next point, and the first one rises from the lower edge.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut path: Vec<(f64, f64)> = Vec::new();
    for (at, level) in points {
        let before = path.last().map_or(0.0, |last| last.1);
        path.push((at, before));
        path.push((at, level));
    }
    path
}

fn marks(sheet: &mut Sheet<'_, '_>, points: impl Iterator<Item = (f64, f64)>, pen: Pen) -> Drawn {
    let full = pen.light.filled();
    let thin = pen.light.stroke_width(3);
    match pen.mark {
        Mark::Disc => sheet.draw_series(points.map(|at| Circle::new(at, 7, full)))?,
        Mark::Ring => sheet.draw_series(points.map(|at| Circle::new(at, 8, thin)))?,
        Mark::Triangle => sheet.draw_series(points.map(|at| TriangleMarker::new(at, 10, full)))?,
        Mark::Cross => sheet.draw_series(points.map(|at| Cross::new(at, 8, thin)))?,
        Mark::Square => sheet.draw_series(
            points.map(|at| EmptyElement::at(at) + Rectangle::new([(-6, -6), (6, 6)], full)),
        )?,
        Mark::Plus => sheet.draw_series(points.map(|at| {
            EmptyElement::at(at)
                + PathElement::new([(-9, 0), (9, 0)], thin)
                + PathElement::new([(0, -9), (0, 9)], thin)
        }))?,
    };
    Ok(())
}

/// Twice as fine as it is shown: places are whole numbers.
const SIZE: (u32, u32) = (1_440, 820);
const TEXT: u32 = 28;
