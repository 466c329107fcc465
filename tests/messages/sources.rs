//! The texts that people read, each with its place: comments, documentation, and literals that hold sentences.

use std::collections::HashSet;

use proc_macro2::{LineColumn, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, Item, LitStr, Macro, Token};

/// The role of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The beginning of an error's message.
    Error,
    /// A line of the log.
    Log,
    /// A text of `--help`.
    Help,
    /// Any other literal that reads like a sentence: parts of messages, reports and answers.
    Literal,
    /// Consecutive lines of a comment or of documentation.
    Comment,
}

/// A text and its place.
#[derive(Debug)]
pub struct Text {
    pub kind: Kind,
    pub file: String,
    pub line: usize,
    pub text: String,
}

/// The constructors and methods of `Error` whose argument is a message.
const CONSTRUCTORS: [&str; 8] = ["job", "input", "engine", "bug", "context", "because", "interrupted", "new"];

/// DataFusion's macros that make errors.
const ERROR_MACROS: [&str; 5] =
    ["plan_err", "exec_err", "internal_err", "plan_datafusion_err", "exec_datafusion_err"];

/// The derives that make arguments of a type.
const CLAP: [&str; 4] = ["Args", "Parser", "Subcommand", "ValueEnum"];

/// All texts of a file, by line. Of unit tests, only comments.
pub fn texts(file: &str, source: &str) -> Vec<Text> {
    let syntax = syn::parse_file(source).unwrap_or_else(|e| panic!("{file}: {e}"));
    let mut reader = Reader {
        found: Vec::new(),
        messages: HashSet::new(),
        in_log: false,
        help: file.starts_with("src/cli/"),
    };
    reader.visit_file(&syntax);
    let mut found = reader.found;
    found
        .extend(comments(source).into_iter().map(|(line, text)| (Kind::Comment, line, without_names(&text))));
    found.sort_by_key(|(_, line, _)| *line);
    let text = |(kind, line, text)| Text { kind, file: file.to_owned(), line, text };
    found.into_iter().map(text).collect()
}

/// Collects literals and help.
struct Reader {
    found: Vec<(Kind, usize, String)>,
    /// The places where messages of errors begin.
    messages: HashSet<LineColumn>,
    in_log: bool,
    /// Whether derives of clap make help of documentation.
    help: bool,
}

impl Reader {
    fn logging(&mut self, visit: impl FnOnce(&mut Self)) {
        let outside = std::mem::replace(&mut self.in_log, true);
        visit(self);
        self.in_log = outside;
    }

    fn begins_message<'a>(&mut self, mut arguments: impl Iterator<Item = &'a Expr>) {
        self.messages.extend(arguments.next().and_then(beginning));
    }

    /// The literals of tokens that are not an expression.
    fn tokens(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse2::<LitStr>(TokenTree::from(literal).into()) {
                        self.visit_lit_str(&text);
                    }
                }
                _ => {}
            }
        }
    }

    fn help(&mut self, attributes: &[Attribute]) {
        let docs: Vec<_> =
            attributes.iter().filter_map(|attribute| Some((attribute.span(), doc(attribute)?))).collect();
        if let Some((span, _)) = docs.first() {
            let lines: Vec<&str> = docs.iter().map(|(_, text)| text.trim()).collect();
            self.found.push((Kind::Help, span.start().line, lines.join("\n")));
        }
    }
}

impl<'a> Visit<'a> for Reader {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(module) if is_test(&module.attrs) => return,
            Item::Struct(item) => &item.attrs,
            Item::Enum(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if self.help && derives_clap(attributes) {
            self.help(attributes);
            match item {
                Item::Struct(item) => item.fields.iter().for_each(|field| self.help(&field.attrs)),
                Item::Enum(item) => {
                    for variant in &item.variants {
                        self.help(&variant.attrs);
                        variant.fields.iter().for_each(|field| self.help(&field.attrs));
                    }
                }
                _ => {}
            }
        }
        visit::visit_item(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'a Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }

    fn visit_expr_call(&mut self, call: &'a syn::ExprCall) {
        if let Expr::Path(function) = call.func.as_ref() {
            let mut names = function.path.segments.iter().rev().map(|segment| segment.ident.to_string());
            let constructs = names.next().is_some_and(|name| CONSTRUCTORS.contains(&name.as_str()));
            if constructs && names.next().is_some_and(|name| name == "Error") {
                self.begins_message(call.args.iter());
            }
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        if call.method == "context" || call.method == "because" {
            self.begins_message(call.args.iter());
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        let name = called.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        let arguments = arguments(called);
        if ERROR_MACROS.contains(&name.as_str()) {
            self.begins_message(arguments.iter().flatten());
        }
        let read = |reader: &mut Self| match &arguments {
            Some(arguments) => arguments.iter().for_each(|argument| reader.visit_expr(argument)),
            None => reader.tokens(called.tokens.clone()),
        };
        if ["debug", "info", "warn", "error"].contains(&name.as_str()) {
            self.logging(read);
        } else {
            read(self);
        }
    }

    fn visit_lit_str(&mut self, literal: &'a LitStr) {
        let text = literal.value();
        if reads_like_words(&text) {
            let start = literal.span().start();
            let kind = match (self.messages.contains(&start), self.in_log) {
                (true, _) => Kind::Error,
                (false, true) => Kind::Log,
                (false, false) => Kind::Literal,
            };
            self.found.push((kind, start.line, text));
        }
    }
}

/// The arguments of a macro that takes expressions.
fn arguments(called: &Macro) -> Option<Punctuated<Expr, Token![,]>> {
    called.parse_body_with(Punctuated::parse_terminated).ok()
}

/// The place of the literal with which the text of an expression begins.
fn beginning(text: &Expr) -> Option<LineColumn> {
    match text {
        Expr::Lit(literal) => Some(literal.span().start()),
        Expr::Reference(reference) => beginning(&reference.expr),
        Expr::Closure(closure) => beginning(&closure.body),
        Expr::Macro(called) if called.mac.path.is_ident("format") || called.mac.path.is_ident("concat") => {
            arguments(&called.mac)?.first().and_then(beginning)
        }
        Expr::Block(block) => match &block.block.stmts[..] {
            [syn::Stmt::Expr(only, None)] => beginning(only),
            _ => None,
        },
        _ => None,
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string().contains("test"))
    })
}

fn derives_clap(attributes: &[Attribute]) -> bool {
    let mut found = false;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("derive")) {
        let derived =
            attribute.parse_args_with(Punctuated::<syn::Path, Token![,]>::parse_terminated).unwrap();
        let mut names = derived.iter().filter_map(|path| path.segments.last());
        found |= names.any(|name| CLAP.iter().any(|clap| name.ident == clap));
    }
    found
}

/// A line of documentation.
fn doc(attribute: &Attribute) -> Option<String> {
    let value = &attribute.meta.require_name_value().ok()?.value;
    match value {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) if attribute.path().is_ident("doc") => {
            Some(text.value())
        }
        _ => None,
    }
}

/// Whether a literal holds two words that a person reads: names of columns, keys, paths and SQL do not.
fn reads_like_words(text: &str) -> bool {
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| ",.;:()`\"?!".contains(c));
        word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '\'')
    };
    !text.contains('<') && text.split_whitespace().filter(is_word).count() >= 2
}

/// The comments of a source, documentation among them.
fn comments(source: &str) -> Vec<(usize, String)> {
    let literals = literals(source);
    let lines = (1..).zip(source.lines()).map(|(number, line)| {
        let at = line.match_indices("//").map(|(at, _)| at).find(|&at| {
            let place = LineColumn { line: number, column: line[..at].chars().count() };
            !literals.iter().any(|(start, end)| *start <= place && place < *end)
        })?;
        let comment = &line[at + 2..];
        let mark = comment.chars().next().filter(|c| "/!".contains(*c));
        let alone = line[..at].trim().is_empty();
        Some(Line { text: comment.trim_start_matches(['/', '!']).trim(), mark, continues: alone })
    });
    paragraphs(lines)
}

/// A line of a text.
struct Line<'a> {
    text: &'a str,
    /// The mark of its kind: lines of different kinds are different texts.
    mark: Option<char>,
    /// Whether it belongs to the line before, if that is of the same kind.
    continues: bool,
}

/// The lines from 1 on, joined to texts without blocks of code.
fn paragraphs<'a>(lines: impl Iterator<Item = Option<Line<'a>>>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut last, mut in_code) = (None, false);
    for (number, line) in (1..).zip(lines) {
        let Some(Line { text, mark, continues }) = line else {
            last = None;
            continue;
        };
        let is_fence = text.starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence || text.is_empty() {
            last = None;
            continue;
        }
        match found.last_mut() {
            Some((_, before)) if continues && last == Some(mark) && !text.starts_with(['-', '|']) => {
                before.push(' ');
                before.push_str(text);
            }
            _ => found.push((number, text.to_owned())),
        }
        last = Some(mark);
    }
    found
}

/// Beginnings and ends of the literals of a source. Documentation is a literal to the compiler, and none here.
fn literals(source: &str) -> Vec<(LineColumn, LineColumn)> {
    fn collect(tokens: TokenStream, found: &mut Vec<(LineColumn, LineColumn)>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => collect(group.stream(), found),
                TokenTree::Literal(literal) => found.push((literal.span().start(), literal.span().end())),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(source.parse().unwrap(), &mut found);
    let lines: Vec<&str> = source.lines().collect();
    found.retain(|(start, _)| lines[start.line - 1].chars().nth(start.column) != Some('/'));
    found.retain(|(start, end)| start.line != end.line || lines[start.line - 1].contains("//"));
    found
}

/// The comments of a file or the paragraphs of a page, with their lines and with the names in them.
pub fn with_names(file: &str, source: &str) -> Vec<(usize, String)> {
    if file.ends_with(".rs") { comments(source) } else { paragraphs_of(file, source) }
}

/// The paragraphs of a page of Markdown, or the comments and docstrings of a job, a script or Python.
pub fn pages(file: &str, page: &str) -> Vec<Text> {
    let text = |(line, text): (usize, String)| Text {
        kind: Kind::Comment,
        file: file.to_owned(),
        line,
        text: without_names(&text),
    };
    paragraphs_of(file, page).into_iter().map(text).collect()
}

fn paragraphs_of(file: &str, page: &str) -> Vec<(usize, String)> {
    let is_page = file.ends_with(".md");
    let mut in_docstring = false;
    let lines = page.lines().map(|line| {
        let quotes = line.matches(r#"""""#).count() - line.matches(r#"'""""#).count();
        let in_text = is_page || in_docstring || quotes > 0;
        in_docstring ^= quotes % 2 == 1;
        let is_comment = |at: &usize| line[..*at].matches('"').count() % 2 == 0;
        let comment = line.match_indices('#').map(|(at, _)| at).find(is_comment);
        match comment.filter(|_| !in_text) {
            Some(at) => Some(Line {
                text: line[at..].trim_start_matches(['#', ':']).trim(),
                mark: Some('#'),
                continues: line[..at].trim().is_empty(),
            }),
            None => in_text.then(|| Line { text: line.trim(), mark: None, continues: true }),
        }
    });
    paragraphs(lines)
}

/// A text without names: what is quoted as code, and `None` in Python.
fn without_names(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(number, part)| if number % 2 == 0 { part } else { "…" })
        .collect::<String>()
        .replace(" None", " …")
}
