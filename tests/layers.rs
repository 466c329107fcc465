//! Modules import only from modules above them in the table of `src/lib.rs`, and files do not import one another in a circle. Names of
//! types and functions say what they are.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Item;
use syn::visit::Visit;

use crate::messages::all_files;
use crate::support::*;

const CRATES: [&str; 2] = ["src", "crates/functions/src"];

/// The sources in a folder of [`CRATES`], by their path from the repository's root.
pub(crate) fn sources(folder: &str) -> BTreeMap<String, String> {
    let is_source = |name: &str| name.starts_with(&format!("{folder}/")) && name.ends_with(".rs");
    let files = all_files().into_iter().filter(|(name, _)| is_source(name));
    files.map(|(name, path)| (name, std::fs::read_to_string(path).unwrap())).collect()
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

/// The files of a crate by module path, and the paths that each file gives names to by `use`.
struct Modules {
    files: BTreeMap<Vec<String>, String>,
    used: BTreeMap<(String, String), Vec<String>>,
}

impl Modules {
    fn new(sources: &BTreeMap<String, String>, folder: &str) -> Self {
        let path = |file: &str| module_path(&file.replacen(folder, "src", 1));
        let files = sources.keys().map(|file| (path(file), file.clone())).collect();
        let mut modules = Self { files, used: BTreeMap::new() };
        for (file, text) in sources {
            for item in syn::parse_file(text).unwrap().items {
                if let Item::Use(item) = item {
                    modules.add(file, &path(file), Vec::new(), &item.tree);
                }
            }
        }
        modules
    }

    /// Adds the names of a `use` declaration in `file`, whose module is `module`.
    fn add(&mut self, file: &str, module: &[String], mut path: Vec<String>, tree: &syn::UseTree) {
        let (name, own) = match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.add(file, module, path, &tree.tree);
            }
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.add(file, module, path.clone(), tree));
            }
            syn::UseTree::Glob(_) => return,
            syn::UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
            syn::UseTree::Rename(tree) => (tree.rename.to_string(), tree.ident.to_string()),
        };
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name };
        path.extend((own != "self").then_some(own));
        if let Some(path) = self.absolute(module, &path) {
            self.used.insert((file.to_owned(), name), path);
        }
    }

    /// Returns a path from the root of the crate; `None` for other crates.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let child = [module, path.get(..1)?].concat();
        match path[0].as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([module, &path[1..]].concat()),
            "super" => Some([&module[..module.len().checked_sub(supers)?], &path[supers..]].concat()),
            _ if self.files.contains_key(&child) => Some([module, path].concat()),
            _ => None,
        }
    }

    /// Returns the file that declares the item at `path`. Follows `use` declarations.
    fn file(&self, path: &[String]) -> Option<&str> {
        let (depth, file) = (0..=path.len()).rev().find_map(|n| Some((n, self.files.get(&path[..n])?)))?;
        let used = path.get(depth).and_then(|name| self.used.get(&(file.clone(), name.clone())));
        match used {
            Some(used) => self.file(&[used, &path[depth + 1..]].concat()),
            None => Some(file),
        }
    }
}

/// The text of a file without its tests and the names that it only passes on: `pub use` and `mod` declarations.
fn without_exports(text: &str) -> String {
    let mut file = syn::parse_file(text.split("#[cfg(test)]\nmod ").next().unwrap()).unwrap();
    file.items.retain(|item| match item {
        Item::Use(item) => matches!(item.vis, syn::Visibility::Inherited),
        Item::Mod(item) => item.content.is_some(),
        _ => true,
    });
    file.to_token_stream().to_string()
}

/// The files in circles of imports, each with its imports that close a circle.
fn circles(sources: &BTreeMap<String, String>, folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let modules = Modules::new(sources, folder);
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, text) in sources {
        let (module, own) = (module_path(&file.replacen(folder, "src", 1)), without_exports(text));
        let mut paths = CratePaths::new(&file.replacen(folder, "src", 1), &own).found;
        let words: BTreeSet<&str> = own.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let used = modules.used.iter().filter(|((of, name), _)| of == file && words.contains(name.as_str()));
        paths.extend(used.map(|(_, path)| path.clone()));
        // A visibility such as `pub(super)` is a path without an item.
        let items = paths.iter().filter(|path| !module.starts_with(path));
        let files = items.filter_map(|path| modules.file(path)).filter(|other| other != file);
        // A module declares its children, and the root of the crate is below all modules.
        let files = files.filter(|_| !module.is_empty()).map(str::to_owned);
        imports.insert(file.clone(), files.collect());
    }
    let reached: BTreeMap<String, BTreeSet<String>> =
        imports.keys().map(|file| (file.clone(), reached(&imports, file))).collect();
    let closes = |file: &String, other: &String| reached.get(other).is_some_and(|found| found.contains(file));
    let mut found = imports;
    found.iter_mut().for_each(|(file, files)| files.retain(|other| closes(file, other)));
    found.retain(|_, files| !files.is_empty());
    found
}

fn reached(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(file) = next.pop() {
        let files = imports.get(&file).into_iter().flatten();
        next.extend(files.filter(|file| found.insert((*file).clone())).cloned());
    }
    found
}

#[test]
fn files_do_not_import_one_another_in_a_circle() {
    for folder in CRATES {
        let found = circles(&sources(folder), folder);
        assert!(found.is_empty(), "files import one another: {found:#?}");
    }
    let made = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect();
        circles(&files, "src").into_keys().collect::<Vec<_>>()
    };
    let parent = ("src/a/mod.rs", "mod one; mod two; pub use one::One; pub fn plain() {}");
    let one = ("src/a/one.rs", "use super::two::Two; pub struct One;");
    assert_eq!(made(&[parent, one, ("src/a/two.rs", "pub struct Two;")]), [""; 0]);
    let circle = ["src/a/one.rs", "src/a/two.rs"];
    for two in [
        "use super::one::One; pub struct Two;",
        "use super::One; pub struct Two;",
        "use crate::a::One as Other; pub struct Two;",
        "pub struct Two; fn f() -> crate::a::one::One { todo!() }",
    ] {
        assert_eq!(made(&[parent, one, ("src/a/two.rs", two)]), circle, "{two}");
    }
    let child = "use super::plain; pub struct One;";
    assert_eq!(made(&[parent, ("src/a/one.rs", child)]), [""; 0]);
    let uses_child = ("src/a/mod.rs", "mod one; pub use one::One; pub fn plain() -> One { One }");
    assert_eq!(made(&[uses_child, ("src/a/one.rs", child)]), ["src/a/mod.rs", "src/a/one.rs"]);
    let test = "pub struct Two;\n#[cfg(test)]\nmod tests { use super::super::one::One; }";
    assert_eq!(made(&[parent, one, ("src/a/two.rs", test)]), [""; 0]);
}
