//! A page of charts and tables: one HTML file without scripts, fonts or other files.

use std::fmt::Write;

use super::chart::{self, Chart};
use super::palette;
use super::text::escape;
use crate::error::Result;

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
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
    pub tables: Vec<Table>,
}

/// A table. Columns of numbers are aligned to the right.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    /// The caption.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
}

const STYLE: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}
main{max-width:960px;margin:0 auto;padding:32px 24px 64px;overflow-wrap:anywhere}
h1{font-size:28px;line-height:1.25;margin:0 0 12px}
h2{font-size:20px;line-height:1.3;margin:44px 0 10px}
p{margin:0 0 12px;max-width:72ch}
figure{margin:20px 0 28px}
figcaption,caption{color:var(--faint);font-size:14px;line-height:1.5}
figcaption{margin-top:6px;max-width:80ch}
.chart{display:block;border:1px solid var(--grid);border-radius:6px}
.wide{overflow-x:auto;margin:16px 0 24px}
table{border-collapse:collapse;width:max-content;font-size:14px;font-variant-numeric:tabular-nums;overflow-wrap:normal}
caption{text-align:left;padding-bottom:8px}
th,td{max-width:64ch;padding:5px 18px 5px 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
th{font-weight:600}
.number{text-align:right}
";

/// The beginning of every page.
pub(crate) const HTML_MARK: &str = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
     <meta name=\"generator\" content=\"resemblance\">\n";

/// `page` as an HTML file.
///
/// # Errors
/// As [`svg`](super::svg).
pub(crate) fn html(page: &Page) -> Result<String> {
    let title = escape(&page.title);
    let mut out = format!(
        "{HTML_MARK}<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{}{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        palette::variables(),
        palette::style(),
    );
    paragraphs(&mut out, &page.intro);
    for section in &page.sections {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escape(&section.heading));
        paragraphs(&mut out, &section.text);
        for chart in &section.charts {
            let (drawing, caption) = (chart::element(chart, "")?, chart::caption(chart));
            let _ =
                writeln!(out, "<figure>\n{drawing}<figcaption>{}</figcaption>\n</figure>", escape(&caption));
        }
        for table in &section.tables {
            write_table(&mut out, table);
        }
        out.push_str("</section>\n");
    }
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn paragraphs(out: &mut String, texts: &[String]) {
    for text in texts {
        let _ = writeln!(out, "<p>{}</p>", escape(text));
    }
}

fn write_table(out: &mut String, table: &Table) {
    let columns = table.header.len();
    let numbers: Vec<bool> = (0..columns)
        .map(|i| {
            let mut cells = table.rows.iter().filter_map(|row| row.get(i)).filter(|cell| !cell.is_empty());
            !table.rows.is_empty() && cells.all(|cell| is_number(cell))
        })
        .collect();
    let class = |i: usize| if numbers.get(i) == Some(&true) { " class=\"number\"" } else { "" };
    let _ = write!(
        out,
        "<div class=\"wide\">\n<table>\n<caption>{}</caption>\n<thead><tr>",
        escape(&table.caption)
    );
    for (i, name) in table.header.iter().enumerate() {
        let _ = write!(out, "<th scope=\"col\"{}>{}</th>", class(i), escape(name));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(i), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody>\n</table>\n</div>\n");
}

/// Whether a cell is empty, or a number as [`count`](super::count) and [`decimal`](super::decimal) write it.
fn is_number(cell: &str) -> bool {
    cell == "-" || cell.replace(',', "").parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Scale, Series};
    use super::*;

    fn page(text: &str) -> Page {
        let chart = Chart {
            title: text.into(),
            caption: text.into(),
            x: Axis::new(text, Scale::Log),
            y: Axis::new(text, Scale::FromZero),
            series: vec![Series::new(text, vec![(1.0, 1.0), (10.0, 2.0)])],
        };
        let table = Table {
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
        Page { title: text.into(), intro: vec![text.into()], sections: vec![section] }
    }

    #[test]
    fn whatever_is_said_is_text() {
        let html = html(&page("<script>alert(\"a\" & 'b')</script>")).unwrap();
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;alert(&quot;a&quot; &amp; &#39;b&#39;)"), "{html}");
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
