//! The SQL functions as a shared library, for programs that have a DataFusion of their own: Python's package `datafusion` loads them by
//! `resemblance.functions`.
//!
//! ```sh
//! cargo build --release -p resemblance-functions --features foreign --example resemblance_functions
//! ```
//!
//! A function crosses by DataFusion's foreign interface, a struct of the version that [`resemblance_functions_version`] returns. Nothing is
//! allocated for a caller, and nothing is freed: the structs live as long as the library is loaded.

use std::ffi::c_void;
use std::sync::{Arc, LazyLock};

use arrow::array::new_empty_array;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_ffi::udf::FFI_ScalarUDF;

static FUNCTIONS: LazyLock<Vec<FFI_ScalarUDF>> = LazyLock::new(|| {
    let foreign = |function| Arc::new(ScalarUDF::from(Foreign { function })).into();
    resemblance_functions::udf::all().into_iter().map(foreign).collect()
});

/// The major version of DataFusion whose interface the functions have. A program of another version must not read them.
// SAFETY: no other library that is loaded here has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn resemblance_functions_version() -> u64 {
    datafusion_ffi::version()
}

/// The address of the `FFI_ScalarUDF` of a function, counted from 0, which callers clone; null behind the last one.
// SAFETY: no other library that is loaded here has a symbol of this name.
#[unsafe(no_mangle)]
pub extern "C" fn resemblance_function(number: usize) -> *const c_void {
    FUNCTIONS.get(number).map_or(std::ptr::null(), |function| std::ptr::from_ref(function).cast())
}

/// A function whose literal arguments arrive as arrays, as they do through the foreign interface.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Foreign {
    function: Arc<ScalarUDF>,
}

impl Foreign {
    fn inner(&self) -> &Arc<dyn ScalarUDFImpl> {
        self.function.inner()
    }
}

impl ScalarUDFImpl for Foreign {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner().return_type(types)
    }

    /// Planning sees which arguments are literals, and refuses any other setting.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner().coerce_types(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
        }
        // Arguments behind the first one are settings, the same in every row, unless they are sets or signatures.
        for argument in args.args.iter_mut().skip(1) {
            if let ColumnarValue::Array(array) = argument
                && !matches!(array.data_type(), DataType::List(_) | DataType::Binary)
            {
                *argument = ColumnarValue::Scalar(ScalarValue::try_from_array(array, 0)?);
            }
        }
        self.inner().invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner().documentation()
    }
}
