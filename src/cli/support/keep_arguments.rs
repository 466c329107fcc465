//! `--keep`: which of similar documents stays.

use std::collections::BTreeSet;

use crate::job::file::{File, Names};
use crate::job::{Prefer, Preference};

/// Which of similar documents stays.
#[derive(clap::Args)]
pub(in crate::cli) struct KeepArguments {
    /// Which of similar documents stays: longest (the most different shingles), first or last (by file name, then by row), or
    /// COLUMN for the smallest value, "COLUMN desc" for the greatest one, "COLUMN in (A, B)" for A before B. Of several rules,
    /// with commas between them, the first by which two documents differ decides; if none does, the first document stays
    #[arg(long, value_name = "RULES", default_value = "longest", value_parser = checked)]
    keep: String,
}

fn checked(text: &str) -> Result<String, String> {
    for rule in rules(text) {
        rule.parse::<Preference>().map_err(|fault| format!("the rule {rule:?} {fault}"))?;
    }
    Ok(text.to_owned())
}

/// The rules between the commas that are outside brackets.
fn rules(text: &str) -> Vec<&str> {
    let mut open = 0_i32;
    let between = |c: char| {
        open += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && open == 0
    };
    text.split(between).map(str::trim).collect()
}

impl KeepArguments {
    /// Returns the rules. The last one tells any two documents apart.
    pub(in crate::cli) fn rules(&self) -> Vec<&str> {
        let mut rules = rules(&self.keep);
        if !rules.iter().any(|rule| matches!(*rule, "first" | "last")) {
            rules.push("first");
        }
        rules
    }

    /// Lets a job over data keep documents by the rules, and read their columns.
    pub(in crate::cli) fn set(&self, file: &mut File) {
        let rules = self.rules();
        let entries =
            rules.iter().flat_map(|rule| Preference::entries(rule)).filter_map(|rule| rule.parse().ok());
        let columns: BTreeSet<String> = entries.filter_map(Preference::column_of_data).collect();
        if !columns.is_empty() {
            file.source.columns = Some(Names::Many(columns.into_iter().collect()));
        }
        file.clusters.keep = rules.into_iter().map(str::to_owned).collect();
    }

    /// The rules as in `the one with the greatest stars, if equal the first`.
    pub(in crate::cli) fn in_words(&self) -> String {
        self.rules().into_iter().map(in_words).collect::<Vec<_>>().join(", if equal ")
    }
}

fn in_words(rule: &str) -> String {
    match (rule, rule.parse()) {
        ("first" | "last" | "longest", _) => format!("the {rule}"),
        (_, Ok(Preference::Column { column, prefer: Prefer::Least })) => {
            format!("the one with the smallest {column}")
        }
        (_, Ok(Preference::Column { column, prefer: Prefer::Most })) => {
            format!("the one with the greatest {column}")
        }
        _ => format!("by {rule}"),
    }
}
