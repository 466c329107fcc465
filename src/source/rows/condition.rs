//! Converts a condition in SQL to an expression over the columns of a plan. `job::where_and_limit` checks the condition before.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, TryCast, cast, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::ExprWithAlias;

use super::columns::{NamedExpressions, value};
use crate::error::{Context, Error, Result};
use crate::job::Condition;
use crate::udf::expr_fn::number_key;
use crate::udf::values::number_key as key_of;

pub(super) struct Typed {
    /// Whether a row meets the condition.
    pub meets: Expr,
    /// The texts that the condition converts.
    pub converted: Vec<Converted>,
}

/// A text that a condition converts to a number, a date or another type.
#[derive(PartialEq)]
pub(super) struct Converted {
    /// The text's expression as written in the condition.
    pub name: String,
    pub text: Expr,
    /// The converted value. The value is null if the text cannot be converted.
    pub value: Expr,
}

/// Returns the expression of `condition` over the `values` of a plan with this schema. A value that cannot be converted becomes null. A
/// text that is compared with a number is converted to a number. Fails with `Kind::Job` if the functions and operators do not fit the types
/// of the columns, or if the condition is not boolean.
pub(super) fn expression(
    ctx: &SessionContext,
    condition: &Condition,
    values: &NamedExpressions,
    schema: &DFSchema,
) -> Result<Typed> {
    let mut fields = Vec::with_capacity(condition.columns().len());
    for name in condition.columns() {
        fields.push(Field::new(name, value(values, name)?.get_type(schema)?, true));
    }
    let columns = DFSchema::try_from(Schema::new(fields))?;
    let unusable = || Error::job(format!("source.where cannot be used: {:?}", condition.text()));
    let syntax = ExprWithAlias { expr: condition.syntax()?, alias: None };
    let mut converted = Vec::new();
    let typed = || -> DfResult<(Expr, DataType)> {
        let parsed = ctx.state().create_logical_expr_from_sql_expr(syntax, &columns)?;
        let numbers = parsed.transform_up(|part| numbers(part, &columns, &mut converted))?.data;
        let simplifier =
            ExprSimplifier::new(SimplifyContext::builder().with_schema(Arc::new(columns.clone())).build());
        let coerced = simplifier.coerce(numbers, &columns)?;
        let coerced =
            coerced.transform_up(|part| without_failing_casts(part, &columns, &mut converted))?.data;
        let data_type = coerced.get_type(&columns)?;
        Ok((coerced, data_type))
    };
    let (typed, data_type) = typed().map_err(|error| unusable().because(error))?;
    if data_type != DataType::Boolean {
        return Err(unusable()
            .because(Error::job(format!("it is of type {data_type}, and a condition is true or false"))));
    }
    for Converted { text, value, .. } in &mut converted {
        *text = with_values(std::mem::take(text), values)?;
        *value = with_values(std::mem::take(value), values)?;
    }
    Ok(Typed { meets: with_values(typed, values)?, converted })
}

fn with_values(expression: Expr, values: &NamedExpressions) -> Result<Expr> {
    let replaced = expression.transform_up(|part| match &part {
        Expr::Column(column) => Ok(Transformed::yes(
            value(values, column.name()).map_err(datafusion::error::DataFusionError::from)?,
        )),
        _ => Ok(Transformed::no(part)),
    });
    Ok(replaced.context(|| "source.where lost a column".to_owned())?.data)
}

/// Converts a text column that is compared with numbers. A comparison with integers compares values of `number_key`, because floating-point
/// numbers cannot represent all digits. It adds the column to `converted` once. Any other comparison uses floating-point numbers.
fn numbers(part: Expr, columns: &DFSchema, converted: &mut Vec<Converted>) -> DfResult<Transformed<Expr>> {
    let is_text = |expr: &Expr| -> DfResult<bool> {
        let is_column = matches!(expr, Expr::Column(_));
        Ok(is_column && expr.get_type(columns)?.is_string())
    };
    let mut compared = |text: Expr, numbers: Vec<Expr>| {
        let Some(keys) = numbers.iter().map(integer_key).collect() else {
            let text = if numbers.iter().all(is_number) { cast(text, DataType::Float64) } else { text };
            return (text, numbers);
        };
        let (name, value) = (text.human_display().to_string(), number_key(text.clone()));
        let one = Converted { name, text, value: value.clone() };
        if !converted.contains(&one) {
            converted.push(one);
        }
        (value, keys)
    };
    Ok(match part {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if compares(op) => {
            let (text, number) =
                if is_text(&left)? { (&mut left, &mut right) } else { (&mut right, &mut left) };
            if is_text(text)? {
                let (value, mut keys) = compared(text.as_ref().clone(), vec![number.as_ref().clone()]);
                (**text, **number) = (value, keys.remove(0));
            }
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Between(Between { expr, negated, low, high }) if is_text(&expr)? => {
            let (expr, mut keys) = compared(*expr, vec![*low, *high]);
            let (high, low) = (Box::new(keys.remove(1)), Box::new(keys.remove(0)));
            Transformed::yes(Expr::Between(Between { expr: Box::new(expr), negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated }) if is_text(&expr)? => {
            let (expr, list) = compared(*expr, list);
            Transformed::yes(Expr::InList(InList { expr: Box::new(expr), list, negated }))
        }
        other => Transformed::no(other),
    })
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Whether `expr` is a number literal, which may have signs.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.data_type().is_numeric(),
        Expr::Negative(inner) => is_number(inner),
        _ => false,
    }
}

/// The key of an integer literal, which may have signs. `None` for other expressions.
fn integer_key(expr: &Expr) -> Option<Expr> {
    fn text(expr: &Expr) -> Option<String> {
        match expr {
            Expr::Literal(value, _) if value.data_type().is_integer() => Some(value.to_string()),
            Expr::Negative(inner) => {
                let text = text(inner)?;
                Some(text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned))
            }
            _ => None,
        }
    }
    Some(lit(ScalarValue::Binary(Some(key_of(&text(expr)?)?))))
}

/// Replaces a cast with a cast that returns null on failure. Adds each cast of a text to `converted` once.
fn without_failing_casts(
    part: Expr,
    columns: &DFSchema,
    converted: &mut Vec<Converted>,
) -> DfResult<Transformed<Expr>> {
    Ok(match part {
        Expr::Cast(cast) => {
            let may_fail = cast.expr.get_type(columns)?.is_string()
                && !cast.field.data_type().is_string()
                && !cast.expr.column_refs().is_empty();
            let (text, name) = (cast.expr.as_ref().clone(), cast.expr.human_display().to_string());
            let value = Expr::TryCast(TryCast { expr: cast.expr, field: cast.field });
            let one = Converted { name, text, value: value.clone() };
            if may_fail && !converted.contains(&one) {
                converted.push(one);
            }
            Transformed::yes(value)
        }
        other => Transformed::no(other),
    })
}
