//! The tokens of Rust sources, without literals, lifetimes and comments.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Name(String),
    /// `::`
    Path,
    Sign(char),
}

/// The tokens of a source. Documentation is the attribute that it is to the compiler.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut found = Vec::new();
    collect(source.parse().unwrap(), &mut found);
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<Token>) {
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) => found.push(Token::Name(name.to_string())),
            TokenTree::Punct(sign) => match (sign.as_char(), sign.spacing()) {
                (':', Spacing::Joint) => {
                    tokens.next();
                    found.push(Token::Path);
                }
                ('\'', _) => {
                    tokens.next();
                }
                (sign, _) => found.push(Token::Sign(sign)),
            },
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => unreachable!("a source has no groups without delimiters"),
                };
                found.push(Token::Sign(open));
                collect(group.stream(), found);
                found.push(Token::Sign(close));
            }
            TokenTree::Literal(_) => {}
        }
    }
}
