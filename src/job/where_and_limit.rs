//! `source.where` and `source.limit` select the rows of a source that are documents.

use std::ops::ControlFlow;
use std::str::FromStr;
use std::sync::Arc;

use datafusion::functions::all_default_functions;
use datafusion::functions_nested::all_default_nested_functions;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::sql::parser::DFParser;
use datafusion::sql::sqlparser::ast::BinaryOperator::{
    self, PGRegexIMatch, PGRegexMatch, PGRegexNotIMatch, PGRegexNotMatch,
};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Value, ValueWithSpan,
    visit_expressions, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::values::scalar;
use crate::error::{Error, Result};

/// A SQL condition over the columns of a source. Its result for a row is the same in every run. Columns are case-sensitive. `a.b` refers to
/// the column `a.b` if it exists, and otherwise to the field `b` of column `a`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    text: String,
    columns: Vec<String>,
}

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) if the text is not a condition on one row, or if its result can differ between runs. The
    /// message is the text that follows the name of the key.
    pub fn parse(text: &str) -> Result<Self> {
        let condition = parsed(text)?;
        if let ControlFlow::Break(why) = visit_expressions(&condition, refuse) {
            return Err(Error::job(why));
        }
        Ok(Self::new(&condition, text.to_owned()))
    }

    fn new(condition: &Expr, text: String) -> Self {
        let mut columns: Vec<String> = Vec::new();
        let _: ControlFlow<()> = visit_expressions(condition, |part| {
            if let Some(name) = column(part).filter(|name| !columns.contains(name)) {
                columns.push(name);
            }
            ControlFlow::Continue(())
        });
        Self { text, columns }
    }

    /// Returns the condition as the user wrote it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the columns in the condition, without repetitions.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the syntax tree, with a single quoted identifier for every column. Fails with `Kind::Bug` if the text cannot be parsed
    /// again.
    pub(crate) fn syntax(&self) -> Result<Expr> {
        let mut condition = parsed(&self.text).map_err(|e| Error::bug("a condition was lost").because(e))?;
        let _: ControlFlow<()> = visit_expressions_mut(&mut condition, |part| {
            if let Some(name) = column(part) {
                *part = Expr::Identifier(Ident::with_quote('"', name));
            }
            ControlFlow::Continue(())
        });
        Ok(condition)
    }

    /// Returns the part of the condition that depends only on the columns `names`: the terms joined by AND, without all terms that
    /// contain other columns. Returns `None` if no term remains.
    pub(crate) fn over(&self, names: &[String]) -> Result<Option<Self>> {
        let mut parts = Vec::new();
        conjuncts(self.syntax()?, &mut parts);
        parts.retain(|part| {
            let columns = Self::new(part, String::new()).columns;
            !columns.is_empty() && columns.iter().all(|name| names.contains(name))
        });
        let joined =
            parts.into_iter().map(|part| format!("({part})")).reduce(|all, part| format!("{all} AND {part}"));
        joined.map(|text| Ok(Self::new(&parsed(&text)?, text))).transpose()
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// The maximum number of names, operators and brackets in a condition, since DataFusion evaluates nested expressions by recursion.
const MAX_PARTS: usize = 3_000;

fn parsed(text: &str) -> Result<Expr> {
    if text.trim().is_empty() {
        return Err(Error::job("is empty: expected a SQL condition, as in \"lang = 'en' AND stars > 2\""));
    }
    let parts = parts(text);
    if parts > MAX_PARTS {
        return Err(Error::job(format!(
            "has {parts} names, operators and brackets, and at most {MAX_PARTS} can be evaluated: write a list of values as \
             lang IN ('en', 'de'), or prepare a column"
        )));
    }
    match DFParser::parse_sql_into_expr(text) {
        Ok(parsed) if parsed.alias.is_none() => Ok(parsed.expr),
        Ok(_) => {
            Err(Error::job(format!("is {text:?}, which ends with an alias: expected a condition alone")))
        }
        Err(error) => Err(Error::job(format!(
            "is {text:?}, which is not a SQL condition: expected one such as \"lang = 'en' AND stars > 2\""
        ))
        .because(error)),
    }
}

/// Counts names, operators and brackets. Strings, numbers and commas do not count, so that lists of values can be long.
fn parts(text: &str) -> usize {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize().unwrap_or_default();
    let value = |token: &Token| {
        matches!(
            token,
            Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_)
        )
    };
    tokens.iter().filter(|token| !value(token)).count()
}

fn conjuncts(condition: Expr, parts: &mut Vec<Expr>) {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, parts);
            conjuncts(*right, parts);
        }
        Expr::Nested(inner) => conjuncts(*inner, parts),
        part => parts.push(part),
    }
}

fn column(part: &Expr) -> Option<String> {
    match part {
        Expr::Identifier(name) => Some(name.value.clone()),
        Expr::CompoundIdentifier(names) => {
            Some(names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join("."))
        }
        _ => None,
    }
}

/// Refuses an expression that needs more than the values of one row, or whose result can differ between runs.
fn refuse(part: &Expr) -> ControlFlow<String> {
    let refused = match part {
        Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. } => {
            "has a subquery: expected a condition on the values of one row".to_owned()
        }
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => {
            format!("has the placeholder `{name}`: expected its value")
        }
        Expr::BinaryOp {
            op: PGRegexMatch | PGRegexIMatch | PGRegexNotMatch | PGRegexNotIMatch,
            right,
            ..
        } => {
            return pattern(Some(&**right));
        }
        Expr::RLike { pattern: of, .. } | Expr::SimilarTo { pattern: of, .. } => return pattern(Some(&**of)),
        Expr::Function(call) => {
            let name = call.name.to_string().to_lowercase();
            match row_function(&name) {
                Some(known) if LENGTHENING.contains(&known.name()) && !is_short(call) => {
                    format!(
                        "calls {name}(), which may take all memory: expected lpad() or rpad() to at most {MAX_PAD} characters"
                    )
                }
                Some(known) if call.over.is_none() => match known.signature().volatility {
                    Volatility::Immutable if name.starts_with("regexp_") => {
                        return pattern(argument(call, 1));
                    }
                    Volatility::Immutable => return ControlFlow::Continue(()),
                    Volatility::Stable | Volatility::Volatile => {
                        format!(
                            "calls {name}(), which may give another value in each run: expected functions of the values of a row"
                        )
                    }
                },
                _ => format!(
                    "calls {name}(), which is not a function of the values of one row in DataFusion's SQL"
                ),
            }
        }
        _ => return ControlFlow::Continue(()),
    };
    ControlFlow::Break(refused)
}

/// Functions whose results can have any length for short arguments.
const LENGTHENING: [&str; 7] =
    ["lpad", "rpad", "repeat", "array_repeat", "array_resize", "range", "generate_series"];
/// The maximum literal length to which a text may be padded.
const MAX_PAD: u32 = 1_000;

/// Returns whether a call pads a text to a short literal length.
fn is_short(call: &Function) -> bool {
    let pads = matches!(call.name.to_string().to_lowercase().as_str(), "lpad" | "rpad");
    let length = match argument(call, 1) {
        Some(Expr::Value(ValueWithSpan { value: Value::Number(length, _), .. })) => length.parse().ok(),
        _ => None,
    };
    pads && length.is_some_and(|length: u32| length <= MAX_PAD)
}

fn argument(call: &Function, at: usize) -> Option<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

/// Refuses a regular expression that is not a literal or that is invalid.
fn pattern(written: Option<&Expr>) -> ControlFlow<String> {
    let Some(Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })) = written else {
        return ControlFlow::Break(
            "has a regular expression that is not written out: expected a text in '...'".into(),
        );
    };
    match regex::Regex::new(text) {
        Ok(_) => ControlFlow::Continue(()),
        Err(error) => {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ");
            ControlFlow::Break(format!("has '{text}', which is not a regular expression: {why}"))
        }
    }
}

fn row_function(name: &str) -> Option<Arc<ScalarUDF>> {
    let mut functions = all_default_functions().into_iter().chain(all_default_nested_functions());
    functions.find(|function| function.name() == name || function.aliases().iter().any(|alias| alias == name))
}

/// A random sample of the documents in a source. Equal seeds choose equal samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// The size of the sample.
    pub size: LimitSize,
    /// The seed of the sample.
    pub seed: u64,
}

/// The size of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitSize {
    /// The sample has this number of documents, at least 1. If the source has fewer documents, the sample contains all of them.
    Documents(u64),
    /// Each document is in the sample with this probability in per cent, greater than 0 and at most 100.
    Percent(f64),
}

impl FromStr for LimitSize {
    type Err = Error;

    /// Parses a number of documents, or a percentage.
    fn from_str(text: &str) -> Result<Self> {
        // Only digits and a point are allowed: f64's parser also accepts "inf", "nan" and "-1".
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let size = match text.trim().strip_suffix('%').map(str::trim_end) {
            Some(percent) => {
                let percent = percent.parse::<f64>().ok().filter(|_| is_number(percent));
                percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).map(Self::Percent)
            }
            None => text.trim().parse().ok().filter(|documents| *documents > 0).map(Self::Documents),
        };
        size.ok_or_else(|| {
            Error::job(format!(
                "is {text:?}: expected a number of documents, as in 10000, or a share of them over 0 and at most 100%, as in \"1%\""
            ))
        })
    }
}

impl Serialize for LimitSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Documents(documents) => serializer.serialize_u64(*documents),
            Self::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for LimitSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let size = scalar(deserializer, "a number of documents, or a share of them as in \"1%\"")?;
        size.text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_as_they_are_written() {
        let condition = Condition::parse(
            "Lang = 'en' AND (meta.stars > 2 OR \"two words\" IS NULL) AND lower(Lang) <> 'x'",
        )
        .unwrap();
        assert_eq!(condition.columns(), ["Lang", "meta.stars", "two words"]);
        assert_eq!(
            condition.syntax().unwrap().to_string(),
            "\"Lang\" = 'en' AND (\"meta.stars\" > 2 OR \"two words\" IS NULL) AND lower(\"Lang\") <> 'x'"
        );
    }

    #[test]
    fn parts_over_some_columns_are_taken_apart() {
        let names = ["day".to_owned(), "hour".to_owned()];
        let over = |text| Condition::parse(text).unwrap().over(&names).unwrap().map(|part| part.text);
        let found = over("day > '2' AND (stars > 2 AND (hour = 1 OR day = '3'))").unwrap();
        assert_eq!(found, "(\"day\" > '2') AND (\"hour\" = 1 OR \"day\" = '3')");
        assert_eq!(over("day = '1' OR stars > 2"), None);
        assert_eq!(over("1 = 1"), None);
    }

    #[test]
    fn what_is_no_condition_on_a_row_is_refused() {
        for (text, says) in [
            ("", "is empty"),
            ("stars >", "is not a SQL condition"),
            ("stars > 2; DROP TABLE x", "is not a SQL condition"),
            ("stars AS x", "ends with an alias"),
            ("day < now()", "calls now(), which may give another value in each run"),
            ("day < current_date", "calls current_date(), which may give another value"),
            ("random() < 0.1", "calls random(), which may give another value"),
            ("count(stars) > 2", "calls count(), which is not a function of the values of one row"),
            ("row_number() OVER () < 3", "calls row_number(), which is not a function"),
            ("lower(x) OVER () = 'a'", "calls lower(), which is not a function"),
            ("minhash(x) = 1", "calls minhash(), which is not a function"),
            ("id IN (SELECT 1)", "has a subquery"),
            ("EXISTS (SELECT 1)", "has a subquery"),
            ("stars > (SELECT 1)", "has a subquery"),
            ("stars > $1", "has the placeholder `$1`"),
            ("text ~ '['", "has '[', which is not a regular expression: unclosed character class"),
            ("NOT text !~* '(a'", "is not a regular expression"),
            ("text SIMILAR TO '*'", "is not a regular expression"),
            ("regexp_like(text, '(?<')", "is not a regular expression"),
            ("regexp_replace(text, 'a{9999}{9999}', '') = ''", "is not a regular expression"),
            ("regexp_like(text, lang)", "a regular expression that is not written out"),
            ("lpad(text, 2000000000) = ''", "calls lpad(), which may take all memory"),
            ("rpad(text, stars) = ''", "calls rpad(), which may take all memory"),
            ("length(repeat(text, 2)) > 3", "calls repeat(), which may take all memory"),
            ("array_length(range(0, 9)) > 3", "calls range(), which may take all memory"),
        ] {
            let said = Condition::parse(text).unwrap_err().to_string();
            assert!(said.contains(says), "{text}: {said}");
        }
        let joined =
            |of: &str, by: &str| (0..60_000).map(|n| format!("{of}{n}")).collect::<Vec<_>>().join(by);
        assert!(Condition::parse(&format!("stars IN ({})", joined("", ", "))).is_ok());
        for text in [joined("stars = ", " OR "), joined("", " || "), joined("stars > ", " AND ")] {
            let said = Condition::parse(&text).unwrap_err().to_string();
            assert!(said.contains("names, operators and brackets"), "{said}");
        }
        assert!(Condition::parse("lpad(text, 5, '0') = '00001' AND text ~ '^a+$'").is_ok());
    }

    #[test]
    fn it_is_its_text_in_manifests() {
        let condition = Condition::parse("a = 1").unwrap();
        let record = serde_json::to_value(&condition).unwrap();
        assert_eq!(record, "a = 1");
        assert_eq!(serde_json::from_value::<Condition>(record).unwrap(), condition);
        assert!(serde_json::from_value::<Condition>("a = random()".into()).is_err());
    }

    #[test]
    fn sizes_are_numbers_or_shares() {
        for (text, size) in [
            ("10000", LimitSize::Documents(10_000)),
            ("1%", LimitSize::Percent(1.0)),
            (" 0.5 % ", LimitSize::Percent(0.5)),
            ("100%", LimitSize::Percent(100.0)),
        ] {
            assert_eq!(text.parse::<LimitSize>().unwrap(), size, "{text}");
        }
        for text in ["", "0", "-1", "1.5", "0%", "101%", "inf%", "1e1%", "%", "ten"] {
            let said = text.parse::<LimitSize>().unwrap_err().to_string();
            assert!(said.contains("expected a number of documents"), "{text}: {said}");
        }
    }
}
