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
        .margin(14)
        .margin_right(50)
        .x_label_area_size(104)
        .y_label_area_size(166)
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
    let path = PathElement::new(points, pen.light.stroke_width(5));
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
const TEXT: u32 = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::plots::{Axis, Look, Scale, Unit};

    fn plot(shape: Shape, scale: Scale, points: &[(f64, f64)]) -> Plot {
        let axis = |scale| Axis {
            name: "axis",
            scale,
            unit: Unit::Seconds,
        };
        Plot {
            title: "a plot".to_owned(),
            caption: String::new(),
            source: String::new(),
            x: axis(scale),
            y: axis(Scale::Linear),
            series: vec![Series {
                name: "one".to_owned(),
                look: Look::Pen(0),
                shape,
                points: points.to_vec(),
            }],
        }
    }

    /// Of the lines that this pen has drawn.
    fn corners(svg: &str) -> Vec<(i32, i32)> {
        let of_pen = format!(
            "stroke=\"{}\"",
            crate::report::html::pens::hex(pen(Look::Pen(0)).light)
        );
        let line = svg
            .lines()
            .find(|line| line.contains("<polyline") && line.contains(&of_pen));
        let (_, points) = line.unwrap().split_once("points=\"").unwrap();
        let (points, _) = points.split_once('"').unwrap();
        let corner = |pair: &str| {
            let (x, y) = pair.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        };
        points.split_whitespace().map(corner).collect()
    }

    #[test]
    fn a_line_goes_through_its_points_in_proportion() {
        let svg = svg(&plot(
            Shape::Line,
            Scale::Linear,
            &[(0.0, 0.0), (1.0, 5.0), (4.0, 10.0)],
        ));
        let found = corners(&svg);
        assert_eq!(found.len(), 3);
        let across = |from: usize, to: usize| f64::from(found[to].0 - found[from].0);
        let up = |from: usize, to: usize| f64::from(found[from].1 - found[to].1);
        assert!(
            (across(0, 2) / across(0, 1) - 4.0).abs() < 0.02,
            "{found:?}"
        );
        assert!((up(0, 2) / up(0, 1) - 2.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn on_a_log_axis_each_factor_is_as_far() {
        let points = [(10.0, 1.0), (100.0, 1.0), (1_000.0, 1.0)];
        let found = corners(&svg(&plot(Shape::Line, Scale::Log, &points)));
        let steps = (found[1].0 - found[0].0, found[2].0 - found[1].0);
        assert!((steps.0 - steps.1).abs() <= 1 && steps.0 > 400, "{found:?}");
    }

    #[test]
    fn a_level_holds_until_the_next_point() {
        let points = [(1.0, 3.0), (2.0, 5.0), (3.0, 0.0)];
        let found = corners(&svg(&plot(Shape::Steps, Scale::Linear, &points)));
        assert_eq!(found.len(), 6);
        // Up, along, up, along, down: every other stretch is level.
        assert_eq!(found[1].1, found[2].1);
        assert_eq!(found[3].1, found[4].1);
        assert_eq!(found[0].1, found[5].1);
    }

    #[test]
    fn every_mark_has_its_place() {
        for pen in 0..6 {
            let mut plot = plot(Shape::Marks, Scale::Linear, &[(1.0, 1.0), (2.0, 2.0)]);
            let without = svg(&Plot {
                series: Vec::new(),
                ..self::plot(Shape::Marks, Scale::Linear, &[])
            });
            plot.series[0].look = Look::Pen(pen);
            let colour = crate::report::html::pens::hex(super::pen(Look::Pen(pen)).light);
            assert!(svg(&plot).matches(&colour).count() >= 2, "{pen}");
            assert!(!without.contains(&colour));
        }
    }
}
