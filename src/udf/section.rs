//! The section of the functions in generated documentation.

use datafusion::logical_expr::DocSection;

/// The section of all functions.
pub(super) const DOC_SECTION: DocSection = DocSection {
    include: true,
    label: "Resemblance Functions",
    description: Some("Functions that tell how similar documents are."),
};
