//! Documents with their texts side by side.

use std::fmt::Write;

use crate::cli::support::print;
use crate::error::Result;
use crate::job::Shingle;
use crate::lookup::show::{Pair, Texts};
use crate::page::side_by_side::{Extent, Mark, View, side_by_side};

/// The most lines of two texts, unless they are wanted whole.
const MAX_LINES: usize = 200;

/// Each of `pairs` with its texts, in two columns under its similarity.
pub(in crate::cli) fn pairs(
    pairs: &[Pair],
    texts: &Texts,
    shingle: &Shingle,
    extent: Extent,
) -> Result<String> {
    let mut shown = String::new();
    for pair in pairs {
        let names = [pair.id_a.to_string(), pair.id_b.to_string()];
        let [a, b] = pair.documents();
        let texts = [texts.of(&a)?, texts.of(&b)?];
        shown += &two(pair.jaccard, names.each_ref().map(String::as_str), texts, shingle, extent);
    }
    Ok(shown)
}

/// Two texts in two columns, each under its name and both under their similarity.
pub(in crate::cli) fn two(
    jaccard: f64,
    names: [&str; 2],
    texts: [&str; 2],
    shingle: &Shingle,
    extent: Extent,
) -> String {
    let mark = if print::colour() { Mark::Colour } else { Mark::Brackets };
    let layout = side_by_side(names, texts, View { width: print::width(), mark, extent, shingle });
    let mut shown = format!("\njaccard {jaccard:.6}\n");
    let most = match extent {
        Extent::Compared => MAX_LINES,
        Extent::Whole => usize::MAX,
    };
    for line in layout.lines.iter().take(most) {
        let _ = writeln!(shown, "{line}");
    }
    let left_out = print::count(layout.lines.len().saturating_sub(most) as u64);
    let _ = match (layout.lines.len() > most, layout.whole) {
        (true, true) => writeln!(shown, "({left_out} more lines are left out)"),
        (true, false) => writeln!(shown, "({left_out} more lines and what follows them are left out)"),
        (false, false) => writeln!(shown, "(what follows is left out)"),
        (false, true) => Ok(()),
    };
    shown
}

/// The sentence for the pairs that are not shown, with the `option` that shows more.
pub(in crate::cli) fn left_out(all: u64, shown: usize, noun: &str, option: &str) -> String {
    match all.saturating_sub(shown as u64) {
        0 => String::new(),
        1 => format!("\n1 more {noun} is not shown\n"),
        n => format!("\n{} more {noun}s are not shown; {option} {all} shows all\n", print::count(n)),
    }
}
