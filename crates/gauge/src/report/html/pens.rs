//! The pens that series are drawn with: a colour, a dash and a mark each, so that colour-blind readers
//! and paper tell them apart. The colours are Okabe and Ito's, darkened or lightened to stand out from
//! their background.
//!
//! A plot is drawn once, in the light colours. In the dark the style sheet puts the dark ones in their
//! place, by the attributes they stand in; it gives lines their dashes in the same way. Two drawings of
//! each plot would double the page, and a dashed line drawn dash by dash would be ten times as large.

use std::fmt::Write as _;

use plotters::style::RGBColor;

use super::plots::Look;

/// One pen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen {
    pub(super) light: RGBColor,
    dark: RGBColor,
    dash: &'static str,
    pub(super) mark: Mark,
}

/// What stands at a point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Disc,
    Square,
    Triangle,
    Cross,
    Ring,
    Plus,
}

/// The pen of a series; further ones begin anew.
pub(super) fn pen(look: Look) -> Pen {
    match look {
        Look::Control => CONTROL,
        Look::Pen(index) => PENS[index % PENS.len()],
    }
}

/// What gives plots their dashes, and their colours in the dark.
pub(super) fn style() -> String {
    let mut style = String::new();
    for pen in PENS {
        if !pen.dash.is_empty() {
            let _ = writeln!(
                style,
                "polyline[stroke=\"{}\"]{{stroke-dasharray:{}}}",
                hex(pen.light),
                pen.dash
            );
        }
    }
    style.push_str("@media screen and (prefers-color-scheme:dark){\n");
    let inks = [(INK, DARK_INK), (GRID, DARK_GRID)];
    let pens = PENS.into_iter().chain([CONTROL]);
    for (light, dark) in inks
        .into_iter()
        .chain(pens.map(|pen| (pen.light, pen.dark)))
    {
        let (light, dark) = (hex(light), hex(dark));
        let _ = writeln!(
            style,
            "svg [stroke=\"{light}\"]{{stroke:{dark}}}svg [fill=\"{light}\"]{{fill:{dark}}}"
        );
    }
    style.push_str("}\n");
    style
}

/// As the drawing writes it into its attributes.
pub(super) fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Axes and what is written beside them.
pub(super) const INK: RGBColor = RGBColor(0x3A, 0x3A, 0x3A);
const DARK_INK: RGBColor = RGBColor(0xCF, 0xCF, 0xCF);
/// Lines across the sheet.
pub(super) const GRID: RGBColor = RGBColor(0xDC, 0xDC, 0xDC);
const DARK_GRID: RGBColor = RGBColor(0x3C, 0x3F, 0x44);

/// Black on paper: everything else is compared with it.
const CONTROL: Pen = Pen {
    light: RGBColor(0x11, 0x11, 0x11),
    dark: RGBColor(0xF2, 0xF2, 0xF2),
    dash: "",
    mark: Mark::Disc,
};

const PENS: [Pen; 6] = [
    Pen {
        light: RGBColor(0x00, 0x72, 0xB2),
        dark: RGBColor(0x56, 0xB4, 0xE9),
        dash: "",
        mark: Mark::Square,
    },
    Pen {
        light: RGBColor(0xC4, 0x4E, 0x00),
        dark: RGBColor(0xFF, 0x9A, 0x3D),
        dash: "18 8",
        mark: Mark::Triangle,
    },
    Pen {
        light: RGBColor(0x00, 0x85, 0x60),
        dark: RGBColor(0x2F, 0xD0, 0xA0),
        dash: "10 7",
        mark: Mark::Ring,
    },
    Pen {
        light: RGBColor(0xA8, 0x3E, 0x7C),
        dark: RGBColor(0xE8, 0x9A, 0xC8),
        dash: "6 7",
        mark: Mark::Cross,
    },
    Pen {
        light: RGBColor(0x8A, 0x6A, 0x00),
        dark: RGBColor(0xF0, 0xE4, 0x42),
        dash: "22 6 4 6",
        mark: Mark::Plus,
    },
    Pen {
        light: RGBColor(0x2A, 0x7F, 0xA8),
        dark: RGBColor(0x9A, 0xD8, 0xF8),
        dash: "12 6 3 6 3 6",
        mark: Mark::Disc,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The style sheet tells pens apart by their colours alone.
    #[test]
    fn no_two_pens_share_a_colour() {
        let mut colours: Vec<String> = PENS.iter().map(|pen| hex(pen.light)).collect();
        colours.extend([CONTROL.light, INK, GRID].map(hex));
        let all = colours.len();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), all);
    }

    #[test]
    fn every_colour_has_one_for_the_dark() {
        let style = style();
        for pen in PENS.into_iter().chain([CONTROL]) {
            let rule = format!(
                "svg [stroke=\"{}\"]{{stroke:{}}}",
                hex(pen.light),
                hex(pen.dark)
            );
            assert!(style.contains(&rule), "{rule}");
        }
    }
}
