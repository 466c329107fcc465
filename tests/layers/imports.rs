//! The imports of Rust sources, read off their tokens: what `use` names, nested or not, and paths in the code.
//!
//! It knows modules, `use`, re-exports and paths, and nothing of macros that make any of these.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::tokens::{Token, tokens};

/// A module's path inside the crate: `["output", "paths"]`.
type Module = Vec<String>;

/// The sources of a crate, read.
pub struct Crate {
    /// The modules, inline ones among them, and the file of each.
    modules: BTreeMap<Module, String>,
    files: BTreeMap<String, File>,
    imports: Vec<Import>,
}

/// Something that a file names by its path.
#[derive(Debug, PartialEq)]
pub struct Import {
    /// The file that names it.
    pub from: String,
    /// The path inside the crate, `crate` left out.
    pub path: Vec<String>,
    /// Whether only tests are made of the code that names it.
    pub in_tests: bool,
    /// Whether it is named to be exported again, and not used in the file itself.
    pub exported: bool,
}

/// A file, read on its own.
#[derive(Default)]
struct File {
    /// The names in its `use` declarations.
    uses: Vec<Use>,
    /// The paths in the rest of its code, with the module that each is in.
    paths: Vec<(Module, Vec<String>, bool)>,
    /// The names in the rest of its code.
    names: BTreeSet<String>,
}

/// A name that a `use` declaration brings into a module.
struct Use {
    module: Module,
    /// The path as it is written, with `crate`, `self` and `super`.
    path: Vec<String>,
    /// Its name there; `*` for all names of a module.
    name: String,
    exported: bool,
    in_tests: bool,
}

impl Crate {
    /// Reads the files of a crate, by their paths from the folder that holds `src`.
    pub fn new(sources: &BTreeMap<String, String>) -> Self {
        let mut found = Self { modules: BTreeMap::new(), files: BTreeMap::new(), imports: Vec::new() };
        for (path, text) in sources {
            let module = module_of(path);
            // The command is a crate of its own, which no path of this one leads to.
            if path != "src/main.rs" {
                found.modules.insert(module.clone(), path.clone());
            }
            let mut file = File::default();
            let mut reader = Reader { tokens: tokens(text), at: 0, file: &mut file, inline: Vec::new() };
            reader.module(&module, false);
            for inline in std::mem::take(&mut reader.inline) {
                found.modules.insert(inline, path.clone());
            }
            found.files.insert(path.clone(), file);
        }
        found.imports = found.files.keys().flat_map(|path| found.imports_of(path)).collect();
        found
    }

    /// The files, by path.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// All that is named, in the order of the files.
    pub fn imports(&self) -> impl Iterator<Item = &Import> {
        self.imports.iter()
    }

    fn imports_of(&self, path: &str) -> Vec<Import> {
        let file = &self.files[path];
        let mut imports = Vec::new();
        let mut add = |path_inside: Option<Module>, in_tests, exported| {
            if let Some(named) = path_inside {
                imports.push(Import { from: path.to_owned(), path: named, in_tests, exported });
            }
        };
        for used in &file.uses {
            let exported = used.exported && !file.names.contains(&used.name);
            add(self.absolute(path, &used.module, &used.path), used.in_tests, exported);
        }
        for (module, written, in_tests) in &file.paths {
            add(self.absolute(path, module, written), *in_tests, false);
        }
        imports
    }

    /// The path inside the crate that `written` means in `module`; none if it leads out of the crate.
    fn absolute(&self, file: &str, module: &Module, written: &[String]) -> Option<Module> {
        self.absolute_within(file, module, written, 8)
    }

    fn absolute_within(
        &self,
        file: &str,
        module: &Module,
        written: &[String],
        steps: usize,
    ) -> Option<Module> {
        let (first, rest) = written.split_first()?;
        let mut base: Module = match first.as_str() {
            "crate" if file == "src/main.rs" => return None,
            "crate" => Vec::new(),
            "resemblance" if file == "src/main.rs" => Vec::new(),
            "self" => module.clone(),
            "super" => {
                let (_, above) = module.split_last()?;
                above.to_vec()
            }
            name => {
                let child: Module = module.iter().cloned().chain([name.to_owned()]).collect();
                if file != "src/main.rs" && self.modules.contains_key(&child) {
                    child
                } else {
                    // Perhaps another `use` of the module brought the name.
                    let binding = self.files[file]
                        .uses
                        .iter()
                        .find(|used| used.name == name && used.module == *module && used.path != written)?;
                    self.absolute_within(file, module, &binding.path, steps.checked_sub(1)?)?
                }
            }
        };
        for segment in rest {
            match segment.as_str() {
                "super" => {
                    base.pop()?;
                }
                "self" | "*" => {}
                name => base.push(name.to_owned()),
            }
        }
        Some(base)
    }

    /// The file that has what `path` names: that of the innermost module on the path, or of what this one exports again.
    fn file_of(&self, path: &[String], steps: usize) -> Option<&str> {
        let depth = (0..=path.len()).rev().find(|&n| self.modules.contains_key(&path[..n]))?;
        let file = &self.modules[&path[..depth]];
        let Some(name) = path.get(depth) else { return Some(file) };
        let exported =
            self.files[file].uses.iter().filter(|used| used.exported && used.module == path[..depth]);
        for used in exported.filter(|used| used.name == *name || used.name == "*") {
            let Some(mut there) = self.absolute(file, &used.module, &used.path) else { continue };
            let is_glob = used.name == "*";
            there.extend(path[depth + usize::from(!is_glob)..].iter().cloned());
            let Some(steps) = steps.checked_sub(1) else { return Some(file) };
            match self.file_of(&there, steps) {
                // A star may stand before names that are not meant.
                Some(found) if !is_glob || self.defines(found, name) => return Some(found),
                _ => {}
            }
        }
        Some(file)
    }

    fn defines(&self, file: &str, name: &str) -> bool {
        self.files[file].names.contains(name)
    }
}

/// The sets of files, sorted, in which every one imports every other one directly or around others; only imports that
/// `counts` (from, to) are looked at.
pub fn circles(sources: &Crate, counts: impl Fn(&str, &str) -> bool) -> Vec<Vec<String>> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in sources.imports().filter(|import| !import.in_tests && !import.exported) {
        // A module's name alone is a start of paths, which count themselves.
        if sources.modules.contains_key(&import.path) {
            continue;
        }
        if let Some(to) = sources.file_of(&import.path, 8)
            && to != import.from
            && counts(&import.from, to)
        {
            edges.entry(&import.from).or_default().insert(to);
        }
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|&file| (file, reached_from(file, &edges))).collect();
    let mut circles = BTreeSet::new();
    for (&file, others) in &reached {
        let circle: Vec<String> = others
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(file)))
            .map(|other| other.to_string())
            .collect();
        if !circle.is_empty() {
            circles.insert(circle);
        }
    }
    circles.into_iter().collect()
}

fn reached_from<'a>(file: &str, edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = edges.get(file).into_iter().flatten().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(edges.get(file).into_iter().flatten());
        }
    }
    reached
}

/// `src/output/paths.rs` -> `["output", "paths"]`.
fn module_of(file: &str) -> Module {
    let inside = file.trim_start_matches("src/").trim_end_matches(".rs");
    let mut module: Module = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || ["lib", "main"].contains(&inside) {
        module.pop();
    }
    module
}

/// Walks through the tokens of a file.
struct Reader<'a> {
    tokens: Vec<Token>,
    at: usize,
    file: &'a mut File,
    /// Modules with a body in the file.
    inline: Vec<Module>,
}

impl Reader<'_> {
    fn name(&self, ahead: usize) -> Option<&str> {
        match self.tokens.get(self.at + ahead)? {
            Token::Name(name) => Some(name),
            _ => None,
        }
    }

    fn is(&self, ahead: usize, token: &Token) -> bool {
        self.tokens.get(self.at + ahead) == Some(token)
    }

    /// Reads a module's body: to its closing brace, or to the file's end.
    fn module(&mut self, module: &Module, in_tests: bool) {
        let mut depth = 0_usize;
        // Of the item that comes next.
        let (mut exported, mut only_tests) = (false, false);
        while self.at < self.tokens.len() {
            if self.is(0, &Token::Sign('#')) {
                only_tests |= self.attribute();
                continue;
            }
            match self.name(0) {
                Some("pub") => {
                    exported = true;
                    self.at += 1;
                    if self.is(0, &Token::Sign('(')) {
                        self.skip('(', ')');
                    }
                    continue;
                }
                Some("use") => {
                    self.at += 1;
                    self.tree(module, &mut Vec::new(), exported, in_tests || only_tests);
                }
                Some("mod") if self.name(1).is_some() && self.is(2, &Token::Sign('{')) => {
                    let inner: Module =
                        module.iter().cloned().chain([self.name(1).unwrap().to_owned()]).collect();
                    self.at += 3;
                    self.inline.push(inner.clone());
                    self.module(&inner, in_tests || only_tests);
                }
                Some("mod") => self.at += 2,
                Some(_) => self.path(module, in_tests || only_tests),
                None => {
                    match self.tokens[self.at] {
                        Token::Sign('{') => depth += 1,
                        Token::Sign('}') if depth == 0 => {
                            self.at += 1;
                            return;
                        }
                        Token::Sign('}') => depth -= 1,
                        _ => {}
                    }
                    let ends = matches!(self.tokens[self.at], Token::Sign(';' | '}')) && depth == 0;
                    self.at += 1;
                    if !ends {
                        continue;
                    }
                    only_tests = false;
                }
            }
            exported = false;
            if self.at > 0
                && matches!(self.tokens.get(self.at - 1), Some(Token::Sign(';' | '}')))
                && depth == 0
            {
                only_tests = false;
            }
        }
    }

    /// Passes over an attribute: whether it says that what follows is for tests alone.
    fn attribute(&mut self) -> bool {
        self.at += 1;
        if self.is(0, &Token::Sign('!')) {
            self.at += 1;
        }
        let from = self.at;
        self.skip('[', ']');
        let words = |word: &str| Token::Name(word.to_owned());
        self.tokens[from..self.at]
            .windows(3)
            .any(|three| *three == [words("cfg"), Token::Sign('('), words("test")])
    }

    /// Passes over a bracket and what it holds.
    fn skip(&mut self, open: char, close: char) {
        let mut depth = 0_usize;
        while let Some(token) = self.tokens.get(self.at) {
            self.at += 1;
            if *token == Token::Sign(open) {
                depth += 1;
            } else if *token == Token::Sign(close) {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return;
                }
            } else if depth == 0 {
                return;
            }
        }
    }

    /// Reads a `use` tree, whose path so far is `before`, to what ends it.
    fn tree(&mut self, module: &Module, before: &mut Vec<String>, exported: bool, in_tests: bool) {
        let length = before.len();
        let mut renamed = None;
        let mut done = false;
        while let Some(token) = self.tokens.get(self.at).cloned() {
            match token {
                Token::Name(word) if word == "as" => {
                    renamed = self.name(1).map(str::to_owned);
                    self.at += 2;
                }
                Token::Name(name) => {
                    before.push(name);
                    self.at += 1;
                }
                Token::Sign('*') => {
                    before.push("*".to_owned());
                    self.at += 1;
                }
                Token::Path => self.at += 1,
                Token::Sign('{') => {
                    self.at += 1;
                    while self.at < self.tokens.len() && !self.is(0, &Token::Sign('}')) {
                        self.tree(module, before, exported, in_tests);
                        if self.is(0, &Token::Sign(',')) {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    done = true;
                }
                _ => break,
            }
        }
        if !done && before.len() > length {
            let mut path = before.clone();
            if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
                path.pop();
            }
            let name = renamed.unwrap_or_else(|| path.last().cloned().unwrap_or_default());
            self.file.uses.push(Use { module: module.clone(), path, name, exported, in_tests });
        }
        before.truncate(length);
        if length == 0 && self.is(0, &Token::Sign(';')) {
            self.at += 1;
        }
    }

    /// Reads a name in the code, and the path that it starts.
    fn path(&mut self, module: &Module, in_tests: bool) {
        let follows = self.at > 0 && matches!(self.tokens[self.at - 1], Token::Path | Token::Sign('.'));
        let mut path = Vec::new();
        while let Some(name) = self.name(0) {
            path.push(name.to_owned());
            self.at += 1;
            if !(self.is(0, &Token::Path) && self.name(1).is_some()) {
                break;
            }
            self.at += 1;
        }
        self.file.names.extend(path.iter().cloned());
        if path.len() > 1 && !follows {
            self.file.paths.push((module.clone(), path, in_tests));
        }
    }
}
