//! Modules import only from those above them in the table of `src/lib.rs`, and names of types and functions say what they are.

use proc_macro2::{TokenStream, TokenTree};
use syn::Item;
use syn::visit::Visit;

use crate::support::*;

/// The folders of the sources of both crates.
const CRATES: [&str; 2] = ["src", "crates/functions/src"];

/// The sources in a folder of [`CRATES`], by their path from the repository's root.
fn sources(folder: &str) -> BTreeMap<String, String> {
    fn read(folder: &Path, found: &mut BTreeMap<String, String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, found);
            } else {
                let inside = path.strip_prefix(repository("")).unwrap().to_string_lossy().replace('\\', "/");
                found.insert(inside, std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }
    let mut found = BTreeMap::new();
    read(&repository(folder), &mut found);
    found.retain(|path, _| path.ends_with(".rs"));
    found
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

/// The module of a file: `src/output/layout.rs` -> `["output", "layout"]`.
fn module_path(file: &str) -> Vec<String> {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').filter(|name| !["mod", "lib", "main"].contains(name)).map(str::to_owned).collect()
}

/// The paths inside the crate that the code of a file names, in `use` declarations and elsewhere, without `crate`.
struct CratePaths {
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl CratePaths {
    fn new(file: &str, text: &str) -> Self {
        let mut paths = Self { module: module_path(file), found: Vec::new() };
        paths.read(text.parse().unwrap_or_else(|error| panic!("{file}: {error}")), &[]);
        paths
    }

    /// Reads tokens, each path of which follows `prefix`.
    fn read(&mut self, tokens: TokenStream, prefix: &[String]) {
        let (mut path, mut colons) = (prefix.to_vec(), 0);
        let mut last = [String::new(), String::new()];
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.add(&path, prefix.len());
                        path = prefix.to_vec();
                    }
                    last = [std::mem::take(&mut last[1]), name.to_string()];
                    // A name that follows `as` is one of this file.
                    if last[0] != "as" && last[1] != "as" {
                        path.push(last[1].clone());
                    }
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                TokenTree::Group(group) if colons == 2 => {
                    self.read(group.stream(), &path);
                    path = prefix.to_vec();
                }
                TokenTree::Group(group) => {
                    let is_module = last[0] == "mod";
                    self.module.extend(is_module.then(|| last[1].clone()));
                    self.read(group.stream(), &[]);
                    self.module.truncate(self.module.len() - usize::from(is_module));
                    last = Default::default();
                }
                _ => colons = 0,
            }
        }
        self.add(&path, prefix.len());
    }

    fn add(&mut self, path: &[String], from: usize) {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let base = match path.first().map(String::as_str) {
            _ if path.len() == from => return,
            // The program names the library like any other crate.
            Some("crate" | "resemblance") => &[],
            Some("super") => &self.module[..self.module.len().saturating_sub(supers)],
            _ => return,
        };
        self.found.push([base, &path[supers.max(1)..]].concat());
    }
}

/// The imports from below in `modules`, one line each.
fn imports_from_below(sources: &BTreeMap<String, String>, modules: &[String]) -> Vec<String> {
    let place = |name: &String| modules.iter().position(|module| module == name);
    let mut wrong = Vec::new();
    for (file, text) in sources {
        // The crate's own files are below all others.
        let own = module_path(file).first().and_then(place).unwrap_or(modules.len());
        for path in CratePaths::new(file, text).found {
            if path.first().and_then(place).is_some_and(|named| named > own) {
                wrong.push(format!("{file} imports crate::{}", path.join("::")));
            }
        }
    }
    wrong
}

#[test]
fn modules_import_only_from_above() {
    let (sources, modules) = (sources("src"), modules());
    let unknown: Vec<_> = sources
        .keys()
        .filter(|file| module_path(file).first().is_some_and(|top| !modules.contains(top)))
        .collect();
    assert!(unknown.is_empty(), "no row in the table of lib.rs has the module of {unknown:?}");
    let named: usize = sources.iter().map(|(file, text)| CratePaths::new(file, text).found.len()).sum();
    assert!(named > 500, "the sources' imports were not found");
    let wrong = imports_from_below(&sources, &modules);
    assert!(wrong.is_empty(), "imports from below:\n{}", wrong.join("\n"));
}

#[test]
fn an_import_from_below_is_found_in_every_form() {
    let found = |text: &str| {
        let files = [("src/above/inner.rs", text), ("src/below.rs", "pub struct Thing; pub mod part {}")];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        imports_from_below(&files.into(), &["above".to_owned(), "below".to_owned()]).len()
    };
    for text in [
        "use crate::below::Thing;",
        "use crate::{above::deep, below};",
        "use crate::{\n    above::deep,\n    below::{\n        part::{self},\n    },\n};",
        "use super::super::below::Thing;",
        "use super::super::{below as other};",
        "pub(crate) use crate::below::*;",
        "fn f() { let x: crate::below::Thing = todo!(); }",
        "fn f() { use crate::{below}; }",
        "mod tests { use super::super::super::below::Thing; }",
        "use crate /* why */ :: { below };",
        "const C: char = '\"'; use crate::below::Thing;",
        "fn f<'a>(x: &'a str) -> crate::below::Thing { todo!() }",
    ] {
        assert_eq!(found(text), 1, "{text}");
    }
    for text in [
        "// use crate::below::Thing;",
        "/* a /* nested */ use crate::below::Thing; */",
        "/// See [`crate::below::Thing`].\nfn f() {}",
        "const C: &str = \"use crate::below::Thing;\";",
        "use super::deep; use crate::{above::deep as below};",
        "use std::below::Thing; fn f() { other::below::thing() }",
    ] {
        assert_eq!(found(text), 0, "{text}");
    }
}

#[test]
fn every_type_of_a_crate_has_a_name_of_its_own() {
    for folder in CRATES {
        let mut found = types(folder);
        assert!(found.len() > 30, "{folder}: the types of the sources were not found");
        found.retain(|_, files| files.len() > 1);
        assert!(found.is_empty(), "types with one name: {found:#?}");
    }
}

/// The types of a crate by name, each with its files.
fn types(folder: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources(folder) {
        for item in syn::parse_file(&text).unwrap().items {
            let name = match item {
                Item::Struct(item) => item.ident,
                Item::Enum(item) => item.ident,
                Item::Trait(item) => item.ident,
                Item::Type(item) => item.ident,
                _ => continue,
            };
            found.entry(name.to_string()).or_default().push(path.clone());
        }
    }
    found
}

/// The names of the functions of a file.
#[derive(Default)]
struct FunctionNames(Vec<String>);

impl<'a> Visit<'a> for FunctionNames {
    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        self.0.push(signature.ident.to_string());
    }
}

#[test]
fn no_function_has_a_preposition_as_its_name() {
    let names = |text: &str| {
        let mut names = FunctionNames::default();
        names.visit_file(&syn::parse_file(text).unwrap());
        names.0.into_iter().filter(|name| name == "of" || name.starts_with("of_")).collect::<Vec<_>>()
    };
    let sources = CRATES.into_iter().flat_map(sources);
    let mut found: BTreeMap<String, Vec<String>> = sources.map(|(path, text)| (path, names(&text))).collect();
    found.retain(|_, names| !names.is_empty());
    assert!(found.is_empty(), "functions with names that say nothing: {found:#?}");
    assert_eq!(names("fn of() {} impl A { pub async fn of_a<T>() {} fn often() {} }"), ["of", "of_a"]);
}
