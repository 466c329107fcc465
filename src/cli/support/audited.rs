//! The files of a pack of pairs to judge, and what labels say, in lines and as JSON.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::audit::{Judged, JudgedStratum, Pack, PrecisionAt, StratumOfPack, html};
use crate::cli::support::evaluated::shown;
use crate::cli::support::{own_file, print};
use crate::error::{Context, Error, Result};

/// The files of a pack.
const FILES: [&str; 3] = ["audit.html", "audit.csv", "audit.parquet"];

/// The paths of the files of a pack in a folder.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if one exists: it may hold labels.
pub(in crate::cli) fn free(folder: &str) -> Result<[PathBuf; 3]> {
    let paths = FILES.map(|name| Path::new(folder).join(name));
    match paths.iter().find(|path| path.exists()) {
        Some(path) => Err(Error::job(format!(
            "--to: {} exists, and may hold labels: name another folder, or remove it",
            path.display()
        ))),
        None => Ok(paths),
    }
}

/// Writes a pack to `paths`, and never over a file.
pub(in crate::cli) fn write(pack: &Pack, paths: &[PathBuf; 3]) -> Result<()> {
    let contents = [html(pack)?.into_bytes(), pack.csv()?.into_bytes(), pack.parquet()?];
    for (path, content) in paths.iter().zip(contents) {
        let folder = own_file::folder(path);
        std::fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        own_file::write(path, &content, false)?;
    }
    Ok(())
}

/// A pack for people.
pub(in crate::cli) fn pack_text(pack: &Pack, paths: &[PathBuf; 3], output: &str) -> String {
    let row = |stratum: &StratumOfPack| {
        let (pairs, drawn) = (print::count(stratum.pairs), print::count(stratum.drawn));
        vec![stratum.name.clone(), pairs, drawn, stratum.what.clone()]
    };
    let rows: Vec<Vec<String>> = pack.strata.iter().map(row).collect();
    let mut text = print::table(&["stratum", "pairs", "drawn", "what is in it"], &rows);
    let [html, csv, parquet] = paths;
    let _ = writeln!(
        text,
        "\n{} to judge are in\n  {}: open it in a browser, label with the keys y, n and ?, and save with s\n  {}: or fill the column \
         label with yes, no or unsure\n  {}: for programs",
        print::counted(pack.rows.len() as u64, "pair"),
        html.display(),
        csv.display(),
        parquet.display()
    );
    let _ = writeln!(text, "then: resemblance evaluate {output} --labels labels.csv");
    text
}

/// The same for programs.
pub(in crate::cli) fn pack_json(pack: &Pack, paths: &[PathBuf; 3]) -> Value {
    json!({
        "drawn": pack.rows.len(),
        "pairs": pack.strata.iter().map(|stratum| stratum.pairs).sum::<u64>(),
        "strata": pack.strata,
        "files": paths.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
    })
}

/// What labels say, for people.
pub(in crate::cli) fn judged_text(judged: &Judged) -> String {
    let Judged { rows, unsure, missing, pairs, all, strata, curve, .. } = judged;
    let has_chained = strata.iter().any(|stratum| stratum.name == "chained");
    let row = |name: &str, pairs: u64, judged: u64, estimate| {
        [vec![name.to_owned(), print::count(pairs), print::count(judged)], shown(estimate).to_vec()].concat()
    };
    let of = |stratum: &JudgedStratum| row(&stratum.name, stratum.pairs, stratum.judged, stratum.share);
    let mut table: Vec<Vec<String>> = strata.iter().map(of).collect();
    let total = |with_chained: bool| {
        let counted = strata.iter().filter(|stratum| with_chained || stratum.name != "chained");
        counted.fold((0, 0), |(pairs, judged), stratum| (pairs + stratum.pairs, judged + stratum.judged))
    };
    let found = total(false);
    table.push(row("all pairs that were found", found.0, found.1, *pairs));
    if has_chained {
        let every = total(true);
        table.push(row("and the chained ones", every.0, every.1, *all));
    }
    let mut text = print::table(&["true duplicates in", "pairs", "judged", "share", "95 % interval"], &table);
    let _ = writeln!(
        text,
        "\n{}: {} judged, {} unsure, {} without a label\n",
        print::counted(*rows, "pair"),
        print::count(judged.judged),
        print::count(*unsure),
        print::count(*missing)
    );
    let at = |at: &PrecisionAt| row(&format!("{:.3}", at.threshold), at.pairs, at.judged, at.share);
    let rows: Vec<Vec<String>> = curve.iter().map(at).collect();
    text.push_str(&print::table(
        &["similarity at least", "pairs", "judged", "true duplicates", "95 % interval"],
        &rows,
    ));
    text
}
