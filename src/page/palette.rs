//! The light and dark colours of charts and pages. The hues follow Okabe and Ito (*Color Universal Design*, 2008): people with the common
//! kinds of colour blindness can distinguish them. They were made darker or lighter until their contrast with the background was high
//! enough. Series also differ in dashes and markers.

use std::fmt::{self, Display, Write};

/// A light and a dark colour, as 0xRRGGBB. Drawings use the light one, so [`Display`] writes it.
pub(super) struct Colour(u32, u32);

impl Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:06X}", self.0)
    }
}

pub(super) const GROUND: Colour = Colour(0xFFFFFF, 0x16191D);
pub(super) const INK: Colour = Colour(0x1F2328, 0xE6E8EB);
pub(super) const FAINT_INK: Colour = Colour(0x57606A, 0xA5ADB6);
pub(super) const GRID: Colour = Colour(0xE3E6EA, 0x2E343B);
pub(super) const AXIS: Colour = Colour(0x8C959F, 0x6E7781);

pub(super) struct Look {
    pub(super) colour: Colour,
    /// The corners of a marker relative to its point, in pixels; empty for a circle.
    pub(super) corners: &'static str,
    dashes: &'static str,
}

const SQUARE: &str = "-5,-5 5,-5 5,5 -5,5";
const TRIANGLE: &str = "0,-7 6,5 -6,5";
const DIAMOND: &str = "0,-7 7,0 0,7 -7,0";
const TRIANGLE_DOWN: &str = "0,7 6,-5 -6,-5";

static LOOKS: [Look; 6] = [
    Look { colour: Colour(0x0067A5, 0x5DB7EC), corners: "", dashes: "" },
    Look { colour: Colour(0xC24E00, 0xF2935C), corners: SQUARE, dashes: "9 4" },
    Look { colour: Colour(0x00795A, 0x3CC9A0), corners: TRIANGLE, dashes: "2 4" },
    Look { colour: Colour(0x9C3F82, 0xE4A0CB), corners: DIAMOND, dashes: "10 3 2 3" },
    Look { colour: Colour(0x856600, 0xE2BE45), corners: TRIANGLE_DOWN, dashes: "5 3" },
    Look { colour: Colour(0x4B535C, 0xC2C8CF), corners: "", dashes: "14 4" },
];

/// Returns the look of the series with this index, which repeats after six series.
pub(super) fn look(series: usize) -> &'static Look {
    &LOOKS[series % LOOKS.len()]
}

/// Returns the style sheet of charts and pages: the variables `--ground`, `--ink`, `--faint` and `--grid`, the class `chart`, and the
/// colours for dark mode.
pub(crate) fn style() -> String {
    let (mut light, mut dark) = (String::new(), String::new());
    // Writing to a string does not fail.
    for (name, colour) in [("ground", GROUND), ("ink", INK), ("faint", FAINT_INK), ("grid", GRID)] {
        let _ = write!(light, "--{name}:#{:06X};", colour.0);
        let _ = write!(dark, "--{name}:#{:06X};", colour.1);
    }
    let mut css = format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         .chart{{max-width:100%;height:auto}}\n\
         .chart text{{font-family:system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}}\n\
         .chart polyline{{stroke-linejoin:round;stroke-linecap:butt}}\n",
    );
    for Look { colour, dashes, .. } in LOOKS.iter().filter(|look| !look.dashes.is_empty()) {
        let _ = writeln!(css, ".chart polyline[stroke=\"{colour}\"]{{stroke-dasharray:{dashes}}}");
    }
    let _ = writeln!(css, "@media (prefers-color-scheme:dark){{\n:root{{{dark}}}");
    let fixed = [GROUND, INK, FAINT_INK, GRID, AXIS];
    for colour in fixed.iter().chain(LOOKS.iter().map(|look| &look.colour)) {
        let dark = colour.1;
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
            assert!(contrast(colour.0, GROUND.0) >= 4.5, "{:06X}", colour.0);
            assert!(contrast(colour.1, GROUND.1) >= 4.5, "{:06X}", colour.1);
        }
    }

    #[test]
    fn every_colour_has_one_meaning() {
        let all = [GROUND, INK, FAINT_INK, GRID, AXIS];
        let all: Vec<u32> = all.iter().chain(LOOKS.iter().map(|l| &l.colour)).map(|c| c.0).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
