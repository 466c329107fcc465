//! The colours of charts and pages, light and dark, and the dashes and markers that distinguish series without colour.
//!
//! The hues are those of Okabe and Ito (*Color Universal Design*, 2008), which people with any of the common kinds of
//! colour blindness can distinguish, made darker or lighter until they have enough contrast with the background.

use std::fmt::{self, Display, Write};

/// A colour in the light and in the dark palette. It is displayed as in the drawing, which has the light one.
pub(super) struct Colour {
    light: u32,
    dark: u32,
}

impl Colour {
    const fn new(light: u32, dark: u32) -> Self {
        Self { light, dark }
    }
}

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06X}", self.light)
    }
}

pub(super) const GROUND: Colour = Colour::new(0xFFFFFF, 0x16191D);
pub(super) const INK: Colour = Colour::new(0x1F2328, 0xE6E8EB);
pub(super) const FAINT_INK: Colour = Colour::new(0x57606A, 0xA5ADB6);
pub(super) const GRID: Colour = Colour::new(0xE3E6EA, 0x2E343B);
pub(super) const AXIS: Colour = Colour::new(0x8C959F, 0x6E7781);

/// The look of a series.
pub(super) struct Look {
    pub(super) colour: Colour,
    /// The corners of a marker around its point, in pixels; none for a circle.
    pub(super) corners: &'static str,
    /// Lengths of dashes and gaps; empty is a whole line.
    dashes: &'static str,
}

const SQUARE: &str = "-5,-5 5,-5 5,5 -5,5";
const TRIANGLE: &str = "0,-7 6,5 -6,5";
const DIAMOND: &str = "0,-7 7,0 0,7 -7,0";
const TRIANGLE_DOWN: &str = "0,7 6,-5 -6,-5";

static LOOKS: [Look; 6] = [
    Look { colour: Colour::new(0x0067A5, 0x5DB7EC), corners: "", dashes: "" },
    Look { colour: Colour::new(0xC24E00, 0xF2935C), corners: SQUARE, dashes: "9 4" },
    Look { colour: Colour::new(0x00795A, 0x3CC9A0), corners: TRIANGLE, dashes: "2 4" },
    Look { colour: Colour::new(0x9C3F82, 0xE4A0CB), corners: DIAMOND, dashes: "10 3 2 3" },
    Look { colour: Colour::new(0x856600, 0xE2BE45), corners: TRIANGLE_DOWN, dashes: "5 3" },
    Look { colour: Colour::new(0x4B535C, 0xC2C8CF), corners: "", dashes: "14 4" },
];

/// The look of the series at this place; the seventh has that of the first.
pub(super) fn look(series: usize) -> &'static Look {
    &LOOKS[series % LOOKS.len()]
}

/// The style sheet of charts and pages: the variables `--ground`, `--ink`, `--faint` and `--grid`, the class `chart`, its type and
/// dashes, and the dark colours for readers who prefer them.
pub(crate) fn style() -> String {
    let colours = [("ground", GROUND), ("ink", INK), ("faint", FAINT_INK), ("grid", GRID)];
    let set = |pick: fn(&Colour) -> u32| {
        colours
            .iter()
            .fold(String::new(), |css, (name, colour)| css + &format!("--{name}:#{:06X};", pick(colour)))
    };
    let (light, dark) = (set(|colour| colour.light), set(|colour| colour.dark));
    let mut css = format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         .chart{{max-width:100%;height:auto}}\n\
         .chart text{{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}}\n\
         .chart polyline{{stroke-linejoin:round;stroke-linecap:butt}}\n",
    );
    // Writing to a string does not fail.
    for Look { colour, dashes, .. } in LOOKS.iter().filter(|look| !look.dashes.is_empty()) {
        let _ = writeln!(css, ".chart polyline[stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}");
    }
    let _ = writeln!(css, "@media (prefers-color-scheme:dark){{\n:root{{{dark}}}");
    let fixed = [GROUND, INK, FAINT_INK, GRID, AXIS];
    for colour in fixed.iter().chain(LOOKS.iter().map(|look| &look.colour)) {
        let dark = colour.dark;
        let _ = writeln!(
            css,
            ".chart [fill=\"{colour}\"]{{fill:#{dark:06X}}}.chart [stroke=\"{colour}\"]{{stroke:#{dark:06X}}}"
        );
    }
    css + "}\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn luminance(colour: u32) -> f64 {
        let channel = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        let [_, r, g, b] = colour.to_be_bytes();
        0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn colours_stand_out_in_light_and_in_dark() {
        for colour in LOOKS.iter().map(|look| &look.colour).chain([&INK, &FAINT_INK]) {
            // WCAG 2 requires a contrast of 4.5 for text.
            assert!(contrast(colour.light, GROUND.light) >= 4.5, "{:06X}", colour.light);
            assert!(contrast(colour.dark, GROUND.dark) >= 4.5, "{:06X}", colour.dark);
        }
    }

    #[test]
    fn every_colour_has_one_meaning() {
        let all = [GROUND, INK, FAINT_INK, GRID, AXIS];
        let all: Vec<u32> = all.iter().chain(LOOKS.iter().map(|l| &l.colour)).map(|c| c.light).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
