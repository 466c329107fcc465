//! Defines the interface of the functions and adapts them to DataFusion.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::arguments::{Literals, Param};

/// A function that is computed row by row. Its first arguments are columns. All other arguments are settings, which must be literals.
#[derive(Debug)]
pub(crate) struct Function {
    pub name: &'static str,
    pub columns: &'static [Param],
    /// The number of settings.
    pub settings: RangeInclusive<usize>,
    /// Checks the settings of a call when a query is planned.
    pub check: fn(Literals<'_>) -> Result<()>,
    /// Whether a literal argument becomes a column with the literal in every row. Otherwise the column has a single row.
    pub repeats_literals: bool,
    /// Whether the result is NULL only if an argument is NULL.
    pub keeps_nullability: bool,
    /// The documentation; `None` for functions that only stages use.
    pub doc: Option<Doc>,
    /// Determines the type of the result from the types of the columns.
    pub result: fn(&[DataType]) -> Result<DataType>,
    /// Computes one value per row from the columns and the settings of a call.
    pub rows: fn(&[ArrayRef], Literals<'_>) -> Result<ArrayRef>,
}

impl Function {
    /// Creates a function without settings and documentation.
    pub(super) const fn new(
        name: &'static str,
        columns: &'static [Param],
        result: fn(&[DataType]) -> Result<DataType>,
        rows: fn(&[ArrayRef], Literals<'_>) -> Result<ArrayRef>,
    ) -> Self {
        let (settings, check): (_, fn(Literals<'_>) -> Result<()>) = (0..=0, |_| Ok(()));
        let (repeats_literals, keeps_nullability, doc) = (true, false, None);
        Self { name, columns, settings, check, repeats_literals, keeps_nullability, doc, result, rows }
    }

    pub(super) fn udf(&'static self) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(Udf { function: self, signature, documentation: OnceLock::new() }.into())
    }
}

#[derive(Debug)]
pub(crate) struct Doc {
    pub text: &'static str,
    pub syntax: &'static str,
    /// A call and its result.
    pub example: [&'static str; 2],
    pub arguments: &'static [(&'static str, &'static str)],
    pub related: &'static [&'static str],
}

const SECTION: DocSection = DocSection {
    include: true,
    label: "Resemblance Functions",
    description: Some("Functions that tell how similar documents are."),
};

impl Doc {
    fn build(&self) -> Documentation {
        let [call, result] = self.example;
        let mut doc = Documentation::builder(SECTION, self.text, self.syntax)
            .with_sql_example(format!("```sql\n> select {call};\n{result}\n```"));
        for (name, text) in self.arguments {
            doc = doc.with_argument(*name, *text);
        }
        self.related.iter().fold(doc, |doc, name| doc.with_related_udf(*name)).build()
    }
}

#[derive(Debug)]
struct Udf {
    function: &'static Function,
    signature: Signature,
    documentation: OnceLock<Documentation>,
}

impl PartialEq for Udf {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Udf {}

impl Hash for Udf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for Udf {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.function.result)(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Function { name, columns, check, result, keeps_nullability, .. } = self.function;
        let values = args.scalar_arguments.get(columns.len()..).unwrap_or_default();
        check(Literals { function: name, values })?;
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        // Most functions can return NULL even if no argument is NULL.
        let nullable = !keeps_nullability || args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(*name, result(&types)?, nullable)))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Function { name, columns, settings: allowed, .. } = self.function;
        let split = given.split_at_checked(columns.len());
        let Some((given, settings)) = split.filter(|(_, settings)| allowed.contains(&settings.len())) else {
            let mut takes: Vec<String> = columns.iter().map(|column| column.title().to_owned()).collect();
            takes.extend(match (*allowed.start(), *allowed.end()) {
                (0, 0) => None,
                (0, most) => Some(format!("up to {most} settings")),
                (least, most) if least == most => Some(format!("{least} settings")),
                (least, most) => Some(format!("{least} to {most} settings")),
            });
            let (takes, count) = (takes.join(" and "), given.len());
            return plan_err!("{name} takes {takes}, and got {count} arguments");
        };
        let columns = columns.iter().zip(given).map(|(column, given)| column.coerce(name, given));
        columns.chain(settings.iter().cloned().map(Ok)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Function { name, columns, repeats_literals, rows, .. } = self.function;
        let Some((columns, settings)) = args.args.split_at_checked(columns.len()) else {
            return Err(internal_datafusion_err!("{name} was called with too few arguments"));
        };
        let values: Vec<Option<&ScalarValue>> = settings
            .iter()
            .map(|setting| match setting {
                ColumnarValue::Scalar(scalar) => Some(scalar),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let arrays: Vec<ArrayRef> = if *repeats_literals {
            ColumnarValue::values_to_arrays(columns)?
        } else {
            columns.iter().map(|column| column.to_array(1)).collect::<Result<_>>()?
        };
        let result = rows(&arrays, Literals { function: name, values: &values })?;
        if columns.iter().all(|column| matches!(column, ColumnarValue::Scalar(_))) {
            return ScalarValue::try_from_array(&result, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(result))
    }

    fn documentation(&self) -> Option<&Documentation> {
        let doc = self.function.doc.as_ref()?;
        Some(self.documentation.get_or_init(|| doc.build()))
    }
}
