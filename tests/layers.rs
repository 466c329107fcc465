//! Modules import only from those above them in the table of `src/lib.rs`, and files do not import one another in a
//! circle.

mod imports;

use std::collections::BTreeMap;

use imports::{Crate, circles};

use crate::support::repository;

/// Imports that close a circle and stay for now: who imports (a file, or every file of a folder), what, and why it stays.
/// One that closes no circle any more must leave this list.
const KNOWN: &[(&str, &str, &str)] = &[];

/// The files under `folder`, by their path from the repository's root.
fn rust_files(folder: &str, files: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(repository(folder)).unwrap() {
        let path = entry.unwrap().path();
        let inside = path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/");
        if path.is_dir() {
            rust_files(&inside, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.insert(inside, std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn sources() -> Crate {
    let mut files = BTreeMap::new();
    rust_files("src", &mut files);
    Crate::new(&files)
}

/// The modules from top to bottom: the rows of the table in `lib.rs`.
fn modules() -> Vec<String> {
    let lib = std::fs::read_to_string(repository("src/lib.rs")).unwrap();
    let rows =
        lib.lines().filter_map(|line| line.strip_prefix("//! | ")?.trim_start_matches('[').strip_prefix('`'));
    let modules: Vec<String> = rows.map(|row| row.split_once('`').unwrap().0.to_owned()).collect();
    assert!(modules.len() > 10, "the table of modules in lib.rs was not found");
    modules
}

/// The top module that a file belongs to; none for the crate's own files.
fn top_module(file: &str) -> Option<&str> {
    let inside = file.strip_prefix("src/")?;
    let top = inside.split('/').next()?.trim_end_matches(".rs");
    (!["lib", "main"].contains(&top)).then_some(top)
}

/// The imports from below in `modules`, one line each.
fn imports_from_below(sources: &Crate, modules: &[String]) -> Vec<String> {
    let place = |name: &str| modules.iter().position(|module| module == name);
    let mut wrong = Vec::new();
    for import in sources.imports() {
        // The crate's own files are below all others.
        let own = top_module(&import.from).map_or(modules.len(), |top| place(top).unwrap_or(modules.len()));
        let used = import.path.first().and_then(|top| place(top));
        if used.is_some_and(|used| used > own) {
            wrong.push(format!("{} imports crate::{}", import.from, import.path.join("::")));
        }
    }
    wrong
}

#[test]
fn modules_import_only_from_above() {
    let (sources, modules) = (sources(), modules());
    let unknown: Vec<&str> = sources
        .files()
        .filter(|file| top_module(file).is_some_and(|top| !modules.iter().any(|module| module == top)))
        .collect();
    assert!(unknown.is_empty(), "no row in the table of lib.rs has the module of {unknown:?}");
    assert!(sources.imports().count() > 500, "the sources' imports were not found");
    let wrong = imports_from_below(&sources, &modules);
    assert!(wrong.is_empty(), "imports from below:\n{}", wrong.join("\n"));
}

/// The names of the types of a file, those of its tests left out.
fn type_names(text: &str) -> Vec<String> {
    let items = syn::parse_file(text).unwrap().items.into_iter();
    items
        .filter_map(|item| match item {
            syn::Item::Struct(item) => Some(item.ident),
            syn::Item::Enum(item) => Some(item.ident),
            syn::Item::Trait(item) => Some(item.ident),
            syn::Item::Type(item) => Some(item.ident),
            _ => None,
        })
        .map(|name| name.to_string())
        .collect()
}

#[test]
fn a_type_shares_its_name_with_no_other_in_its_folder() {
    let mut files = BTreeMap::new();
    rust_files("src", &mut files);
    let mut found: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for (path, text) in &files {
        let folder = path.rsplit_once('/').unwrap().0;
        for name in type_names(text) {
            found.entry((folder.to_owned(), name)).or_default().push(path);
        }
    }
    assert!(found.len() > 500, "the types of the sources were not found");
    found.retain(|_, files| files.len() > 1);
    assert!(found.is_empty(), "types with one name: {found:#?}");
}

#[test]
fn files_import_one_another_in_no_new_circle() {
    let sources = sources();
    let wrong = circles_beside(&sources, KNOWN);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The faults of the circles of `sources`, where the imports of `known` are known to close some.
fn circles_beside(sources: &Crate, known: &[(&str, &str, &str)]) -> Vec<String> {
    let is = |(from, to, _): &(&str, &str, &str), import: (&str, &str)| {
        *to == import.1 && (*from == import.0 || from.ends_with('/') && import.0.starts_with(from))
    };
    let left = circles(sources, |from, to| !known.iter().any(|entry| is(entry, (from, to))));
    let new = left.iter().map(|circle| format!("these files import one another: {}", circle.join(" ")));
    let needless = known.iter().filter(|&entry| {
        let others =
            |from: &str, to: &str| !known.iter().any(|other| other != entry && is(other, (from, to)));
        circles(sources, others).len() == left.len()
    });
    let gone = needless.map(|(from, to, _)| {
        format!("no circle goes through the import of {to} by {from}: take it off the list")
    });
    new.chain(gone).collect()
}

/// The sources of a made-up crate.
fn made_up(files: &[(&str, &str)]) -> Crate {
    Crate::new(&files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
}

/// The imports from below of a crate of the modules `above` and `below`, if `above` is this text.
fn found_in_above(text: &str) -> Vec<String> {
    let files = [
        ("src/lib.rs", "pub mod above; pub mod below;"),
        ("src/above/mod.rs", "mod inner; mod deep;"),
        ("src/above/inner.rs", text),
        ("src/above/deep/mod.rs", ""),
        ("src/below.rs", "pub struct Thing; pub mod part {}"),
    ];
    imports_from_below(&made_up(&files), &["above".to_owned(), "below".to_owned()])
}

#[test]
fn an_import_from_below_is_seen_in_every_form() {
    for text in [
        "use crate::below::Thing;",
        "use crate::{above::deep, below};",
        "use crate::{\n    above::deep,\n    below::{\n        part::{self},\n        Thing,\n    },\n};",
        "use super::super::below::Thing;",
        "use super::super::{below as other};",
        "pub(crate) use crate::below::*;",
        "fn f() { let x: crate::below::Thing = todo!(); }",
        "fn f() { use crate::{below}; }",
        "use crate::\n    below::Thing;",
        "mod tests { use super::super::super::below::Thing; }",
        "use crate /* why */ :: { below };",
        "const C: char = '\"'; use crate::below::Thing;",
        "fn f<'a>(x: &'a str) -> crate::below::Thing { todo!() }",
        "use crate as root; use root::below::Thing;",
    ] {
        assert_eq!(found_in_above(text).len(), 1 + text.matches("part::{self}").count(), "{text}");
    }
}

#[test]
fn what_is_no_import_from_below_is_not_taken_for_one() {
    for text in [
        "// use crate::below::Thing;",
        "/* a /* nested */ use crate::below::Thing; */",
        "/// See [`crate::below::Thing`].\nfn f() {}",
        "const C: &str = \"use crate::below::Thing;\";",
        "const C: &str = r#\"\" use crate::below::Thing; \"#;",
        "use super::deep; use crate::above::deep as below;",
        "use std::below::Thing; fn f() { other::below::thing() }",
    ] {
        assert_eq!(found_in_above(text), [""; 0], "{text}");
    }
}

#[test]
fn the_command_is_below_everything() {
    let files = [("src/lib.rs", "pub mod a;"), ("src/main.rs", "use resemblance::{a};"), ("src/a.rs", "")];
    let sources = made_up(&files);
    assert_eq!(sources.imports().map(|import| import.path.join("::")).collect::<Vec<_>>(), ["a"]);
    assert!(imports_from_below(&sources, &["a".to_owned()]).is_empty());
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    circles(&made_up(files), |_, _| true).into_iter().map(|circle| circle.join(" ")).collect()
}

#[test]
fn a_circle_is_seen_directly_and_around_several_files() {
    let lib = ("src/lib.rs", "mod m;");
    let two = [
        lib,
        ("src/m/mod.rs", "mod a; mod b;"),
        ("src/m/a.rs", "use super::b::B; pub struct A(B);"),
        ("src/m/b.rs", "pub struct B; fn f() -> crate::m::a::A { todo!() }"),
    ];
    assert_eq!(circles_of(&two), ["src/m/a.rs src/m/b.rs"]);
    let three = [
        lib,
        ("src/m/mod.rs", "mod a; mod b; mod c;"),
        ("src/m/a.rs", "use super::{b::{\n B}};"),
        ("src/m/b.rs", "use crate::m::{c}; fn f() { c::f() }"),
        ("src/m/c.rs", "use super::a; pub fn f() { a::A; }"),
    ];
    assert_eq!(circles_of(&three), ["src/m/a.rs src/m/b.rs src/m/c.rs"]);
    let with_the_parent = [
        lib,
        ("src/m/mod.rs", "mod a; pub struct M; fn f() { a::A; }"),
        ("src/m/a.rs", "use super::M; pub struct A;"),
    ];
    assert_eq!(circles_of(&with_the_parent), ["src/m/a.rs src/m/mod.rs"]);
}

#[test]
fn a_name_that_is_exported_again_counts_for_the_file_that_has_it() {
    let files = [
        ("src/lib.rs", "mod m;"),
        ("src/m/mod.rs", "mod a; mod b; pub use a::{A}; pub use b::*; pub struct M;"),
        ("src/m/a.rs", "pub struct A; use super::B;"),
        ("src/m/b.rs", "pub struct B; use super::A;"),
    ];
    assert_eq!(circles_of(&files), ["src/m/a.rs src/m/b.rs"]);
    // The parent's list of names alone makes no circle; its own use of one does.
    let files = [
        ("src/lib.rs", "mod m;"),
        ("src/m/mod.rs", "mod a; pub use a::A; pub struct M;"),
        ("src/m/a.rs", "pub struct A; use super::M;"),
    ];
    assert_eq!(circles_of(&files), [""; 0]);
    let files = [files[0], ("src/m/mod.rs", "mod a; pub use a::A; pub struct M(A);"), files[2]];
    assert_eq!(circles_of(&files), ["src/m/a.rs src/m/mod.rs"]);
}

#[test]
fn what_only_tests_import_makes_no_circle() {
    let files = [
        ("src/lib.rs", "mod a; mod b;"),
        ("src/a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("src/b.rs", "pub struct B; use crate::a::A;"),
    ];
    assert_eq!(circles_of(&files), [""; 0]);
}

#[test]
fn the_list_of_known_circles_is_neither_too_short_nor_too_long() {
    let sources = made_up(&[
        ("src/lib.rs", "mod m;"),
        ("src/m/mod.rs", "mod a; mod b; mod c;"),
        ("src/m/a.rs", "pub struct A; use super::b::B;"),
        ("src/m/b.rs", "pub struct B; use super::a::A; use super::c::C;"),
        ("src/m/c.rs", "pub struct C;"),
    ]);
    let closes = ("src/m/b.rs", "src/m/a.rs", "");
    let folder = ("src/m/", "src/m/a.rs", "");
    let harmless = ("src/m/b.rs", "src/m/c.rs", "");
    assert_eq!(circles_beside(&sources, &[closes]), [""; 0]);
    assert_eq!(circles_beside(&sources, &[folder]), [""; 0]);
    let new = circles_beside(&sources, &[]);
    assert_eq!(new, ["these files import one another: src/m/a.rs src/m/b.rs"]);
    let gone = circles_beside(&sources, &[closes, harmless]);
    assert_eq!(gone.len(), 1);
    assert!(gone[0].contains("src/m/c.rs"), "{gone:?}");
}
