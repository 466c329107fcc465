//! A page of charts and tables: one HTML file without scripts, fonts or other files.

use askama::Template;

use super::chart::Chart;
use crate::error::{Error, Result};

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HtmlPage {
    /// Its name.
    pub title: String,
    /// Paragraphs under the title.
    pub intro: Vec<String>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Section {
    /// Its name.
    pub heading: String,
    /// Paragraphs under the heading.
    pub text: Vec<String>,
    /// Charts, each with its caption under it.
    pub charts: Vec<Chart>,
    /// Tables, each with its caption over it.
    pub tables: Vec<HtmlTable>,
}

/// A table. Columns of numbers are aligned to the right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HtmlTable {
    /// The caption.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// The beginning of every page.
pub(crate) const HTML_MARK: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"generator\" content=\"resemblance\">\n";

#[derive(Template)]
#[template(path = "page.html", config = "src/page/askama.toml")]
struct PageTemplate<'a> {
    page: &'a HtmlPage,
}

/// `page` as an HTML file.
///
/// # Errors
/// As [`svg`](super::svg).
pub(crate) fn html(page: &HtmlPage) -> Result<String> {
    PageTemplate { page }.render().map_err(|e| Error::bug("a page cannot be written").because(e))
}

impl HtmlTable {
    /// Whether a column has only numbers as [`count`](super::count) and [`decimal`](super::text::decimal) write them, or `-`.
    fn is_of_numbers(&self, column: &usize) -> bool {
        let is_number = |cell: &String| cell == "-" || cell.replace(',', "").parse::<f64>().is_ok();
        let mut cells = self.rows.iter().filter_map(|row| row.get(*column)).filter(|cell| !cell.is_empty());
        !self.rows.is_empty() && cells.all(is_number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Scale, Series};
    use super::*;

    fn page(text: &str) -> HtmlPage {
        let chart = Chart {
            title: text.into(),
            caption: text.into(),
            x: Axis::new(text, Scale::Log),
            y: Axis::new(text, Scale::FromZero),
            series: vec![Series::new(text, vec![(1.0, 1.0), (10.0, 2.0)])],
        };
        let table = HtmlTable {
            caption: text.into(),
            header: vec![text.into(), "count".into()],
            rows: vec![vec![text.into(), "1,000".into()], vec!["b".into(), "-".into()]],
        };
        let section = Section {
            heading: text.into(),
            text: vec![text.into()],
            charts: vec![chart],
            tables: vec![table],
        };
        HtmlPage { title: text.into(), intro: vec![text.into()], sections: vec![section] }
    }

    #[test]
    fn whatever_is_said_is_text() {
        let html = html(&page("<script>alert(\"a\" & 'b')</script>")).unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&#60;script&#62;alert(&#34;a&#34; &#38; &#39;b&#39;)"), "{html}");
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = html(&page("plain")).unwrap();
        let rest = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "url(", "@import", "<script", "<link", "<img", "src="] {
            assert!(!rest.contains(outside), "{outside}");
        }
        assert!(html.contains("<figcaption>plain</figcaption>"));
    }

    #[test]
    fn columns_of_numbers_stand_to_the_right() {
        let html = html(&page("plain")).unwrap();
        assert!(html.contains("<th scope=\"col\" class=\"number\">count</th>"), "{html}");
        assert!(html.contains("<td>plain</td><td class=\"number\">1,000</td>"), "{html}");
    }
}
