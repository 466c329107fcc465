//! Files that lie in another place than the one where a run read them.

use datafusion::execution::context::SessionContext;

use super::pattern::split_glob;
use super::{ListedFiles, delta_tables, merge, quietly};
use crate::error::{Error, Result};
use crate::job;
use crate::source::file::SourceFile;
use crate::source::format::{Listing, SourceFormat};

/// The files of `source`, each of whose URLs is read from the place in `places` of the same number. They have the paths and names
/// that the run gave them.
///
/// # Errors
/// As [`super::files`], and [`Kind::Job`](crate::error::Kind::Job) for another number of places than the source has URLs.
pub(in crate::source) async fn files(
    ctx: &SessionContext,
    source: &job::Source,
    format: &SourceFormat,
    places: &[String],
) -> Result<ListedFiles> {
    if places.len() != source.urls.len() {
        return Err(Error::job(format!(
            "the source has {} URLs ({}), and {} new places are named: name one for each, in this order",
            source.urls.len(),
            source.urls.join(", "),
            places.len()
        )));
    }
    let mut found = Vec::with_capacity(places.len());
    for (at, (was, place)) in source.urls.iter().zip(places).enumerate() {
        let (base, pattern) = split_glob(was);
        let now = match pattern {
            Some(pattern) if split_glob(place).1.is_none() => {
                format!("{}/{pattern}", place.trim_end_matches('/'))
            }
            _ => place.clone(),
        };
        let mut of_place = match format.listing {
            Listing::Files => quietly(ctx, std::slice::from_ref(&now), format).await?,
            Listing::DeltaTables => {
                let table_versions = source.table_versions.get(at).copied().into_iter().collect();
                let moved = job::Source { urls: vec![now.clone()], table_versions, ..source.clone() };
                delta_tables::files(ctx, &moved, format).await?
            }
        };
        for file in &mut of_place.files {
            rename(file, &now, base);
        }
        found.push(of_place);
    }
    Ok(merge(found))
}

/// Gives a file that was found at the URL `now` the path and name that it had below `base`.
fn rename(file: &mut SourceFile, now: &str, base: &str) {
    if file.path == now {
        file.name = base.rsplit('/').next().unwrap_or(base).to_owned();
        file.path = base.to_owned();
        return;
    }
    file.path = match base {
        "" => file.name.clone(),
        base if base.ends_with('/') => format!("{base}{}", file.name),
        base => format!("{base}/{}", file.name),
    };
}
