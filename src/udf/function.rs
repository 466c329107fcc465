//! The interface of the functions, and its adapter to DataFusion.

use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};

use super::arguments::{Literals, Param};

/// A function of its first `N` arguments, row by row. All other arguments are settings, which must be literals.
pub(crate) trait Function<const N: usize = 1>: Debug + Send + Sync + 'static {
    const NAME: &'static str;

    /// The first arguments.
    const COLUMNS: [Param; N];

    /// The number of settings.
    const SETTINGS: RangeInclusive<usize> = 0..=0;

    /// Whether a literal column is repeated for every row. Otherwise it comes as one row.
    const REPEATS_LITERALS: bool = true;

    /// The documentation; `None` for functions that SQL sessions do not have.
    const DOC: Option<Doc> = None;

    type Settings: Settings;

    /// The type of the result.
    fn result() -> DataType;

    /// A row of the result for each row of the columns.
    ///
    /// # Errors
    /// When a row cannot be mapped.
    fn rows(columns: [&ArrayRef; N], settings: &Self::Settings) -> Result<ArrayRef>;
}

/// The settings of a function.
pub(crate) trait Settings: Sized {
    /// The settings of a call. They are checked when a query is planned.
    ///
    /// # Errors
    /// When one of them is not a literal, or out of its range.
    fn read(literals: Literals<'_>) -> Result<Self>;
}

impl Settings for () {
    fn read(_: Literals<'_>) -> Result<()> {
        Ok(())
    }
}

/// The documentation of a function.
#[derive(Debug)]
pub(crate) struct Doc {
    pub text: &'static str,
    pub syntax: &'static str,
    /// A call and its result.
    pub example: [&'static str; 2],
    pub arguments: &'static [(&'static str, &'static str)],
    pub related: &'static [&'static str],
}

/// The section of all functions.
const SECTION: DocSection = DocSection {
    include: true,
    label: "Resemblance Functions",
    description: Some("Functions that tell how similar documents are."),
};

impl Doc {
    fn build(self) -> Documentation {
        let [call, result] = self.example;
        let mut doc = Documentation::builder(SECTION, self.text, self.syntax)
            .with_sql_example(format!("```sql\n> select {call};\n{result}\n```"));
        for (name, text) in self.arguments {
            doc = doc.with_argument(*name, *text);
        }
        self.related.iter().fold(doc, |doc, name| doc.with_related_udf(*name)).build()
    }
}

/// Adapts a [`Function`] to DataFusion.
#[derive(Debug)]
pub(super) struct Udf<F, const N: usize> {
    signature: Signature,
    documentation: LazyLock<Option<Documentation>>,
    function: PhantomData<F>,
}

impl<F: Function<N>, const N: usize> Default for Udf<F, N> {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: LazyLock::new(|| F::DOC.map(Doc::build)),
            function: PhantomData,
        }
    }
}

impl<F, const N: usize> PartialEq for Udf<F, N> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F, const N: usize> Eq for Udf<F, N> {}

impl<F: Function<N>, const N: usize> Hash for Udf<F, N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        F::NAME.hash(state);
    }
}

impl<F: Function<N>, const N: usize> ScalarUDFImpl for Udf<F, N> {
    fn name(&self) -> &str {
        F::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(F::result())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let values = args.scalar_arguments.get(N..).unwrap_or_default();
        F::Settings::read(Literals { function: F::NAME, values })?;
        // Any function may return NULL.
        Ok(Arc::new(Field::new(F::NAME, F::result(), true)))
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let split = given.split_first_chunk::<N>();
        let Some((columns, settings)) = split.filter(|(_, settings)| F::SETTINGS.contains(&settings.len()))
        else {
            let mut takes: Vec<String> = F::COLUMNS.iter().map(|column| column.title().to_owned()).collect();
            takes.extend(match F::SETTINGS.into_inner() {
                (0, 0) => None,
                (0, most) => Some(format!("up to {most} settings")),
                (least, most) if least == most => Some(format!("{least} settings")),
                (least, most) => Some(format!("{least} to {most} settings")),
            });
            let (name, takes, count) = (F::NAME, takes.join(" and "), given.len());
            return plan_err!("{name} takes {takes}, and got {count} arguments");
        };
        let columns = F::COLUMNS.iter().zip(columns).map(|(column, given)| column.coerce(F::NAME, given));
        columns.chain(settings.iter().cloned().map(Ok)).collect()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((columns, rest)) = args.args.split_first_chunk::<N>() else {
            return Err(internal_datafusion_err!("{} was called with too few arguments", F::NAME));
        };
        let values: Vec<Option<&ScalarValue>> = rest
            .iter()
            .map(|setting| match setting {
                ColumnarValue::Scalar(scalar) => Some(scalar),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let settings = F::Settings::read(Literals { function: F::NAME, values: &values })?;
        map(columns, F::REPEATS_LITERALS, |columns| F::rows(columns, &settings))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.documentation.as_ref()
    }
}

/// Applies `f` to arguments. Literals alone give a literal.
pub(super) fn map<const N: usize>(
    arguments: &[ColumnarValue; N],
    repeats_literals: bool,
    f: impl FnOnce([&ArrayRef; N]) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    let arrays = if repeats_literals {
        ColumnarValue::values_to_arrays(arguments)?
    } else {
        arguments.iter().map(|argument| argument.to_array(1)).collect::<Result<_>>()?
    };
    let arrays = <[ArrayRef; N]>::try_from(arrays)
        .map_err(|_| internal_datafusion_err!("arguments became another number of arrays"))?;
    let rows = f(arrays.each_ref())?;
    if arguments.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_))) {
        return ScalarValue::try_from_array(&rows, 0).map(ColumnarValue::Scalar);
    }
    Ok(ColumnarValue::Array(rows))
}
