//! The section of the functions in generated documentation.

use datafusion::logical_expr::DocSection;

/// Where each function of ours stands.
pub(super) const DOC_SECTION: DocSection = DocSection {
    include: true,
    label: "Resemblance Functions",
    description: Some("Functions that tell how similar documents are."),
};
