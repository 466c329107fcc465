//! Decisions about pairs, and the answers that follow from them.

use std::collections::BTreeMap;

use super::answer::{Documents, Name};
use crate::support::walk::least_reachable;
use crate::support::*;

/// Two documents, and whether they are the same.
#[derive(Debug, Clone, Default)]
pub struct Decisions(pub Vec<(Name, Name, bool)>);

impl Decisions {
    /// The least document of those that are the same as `name`.
    pub fn units(&self) -> BTreeMap<Name, Name> {
        let same = self.0.iter().filter(|(_, _, is_same)| *is_same);
        least_reachable(same.map(|(x, y, _)| (x.clone(), y.clone())))
    }

    pub fn unit(&self, name: &Name) -> Name {
        self.units().get(name).unwrap_or(name).clone()
    }

    pub fn is_judged(&self, name: &Name) -> bool {
        self.0.iter().any(|(x, y, _)| x == name || y == name)
    }

    /// Whether two documents are the same, by what follows from all decisions.
    pub fn verdict(&self, x: &Name, y: &Name) -> Option<bool> {
        if !self.is_judged(x) || !self.is_judged(y) {
            return None;
        }
        let units = self.units();
        let unit = |name: &Name| units.get(name).unwrap_or(name).clone();
        let (of_x, of_y) = (unit(x), unit(y));
        let differ = |(a, b, is_same): &(Name, Name, bool)| {
            let ends = (unit(a), unit(b));
            !is_same && (ends == (of_x.clone(), of_y.clone()) || ends == (of_y.clone(), of_x.clone()))
        };
        if of_x == of_y { Some(true) } else { self.0.iter().any(differ).then_some(false) }
    }

    /// Adds a few decisions about documents, of which half are similar ones, and none contradicts the others.
    pub fn draw(&mut self, documents: &Documents, random: &mut Random) {
        let names: Vec<&Name> = documents.keys().collect();
        for _ in 0..2 + random.below(12) {
            let x = names[random.below(names.len())];
            let common = |y: &&&Name| documents[**y].set.intersection(&documents[x].set).count();
            let mut others: Vec<&Name> = names.iter().filter(|y| **y != x).copied().collect();
            if others.is_empty() {
                return;
            }
            if random.below(4) > 0 {
                others.sort_by_key(|y| std::cmp::Reverse(common(&y)));
                others.truncate(3);
            }
            let y = others[random.below(others.len())];
            let is_known = self.0.iter().any(|(a, b, _)| (a, b) == (x, y) || (a, b) == (y, x));
            let is_same = random.below(3) == 0;
            if !is_known && self.verdict(x, y).is_none_or(|known| known == is_same) {
                self.0.push((x.clone(), y.clone(), is_same));
                let units = self.units();
                let unit = |name: &Name| units.get(name).unwrap_or(name).clone();
                if self.0.iter().any(|(a, b, is_same)| !is_same && unit(a) == unit(b)) {
                    self.0.pop();
                }
            }
        }
    }

    /// The file of the decisions from the one with the index `from`.
    pub fn csv(&self, from: usize) -> String {
        let quoted = |id: &str| format!("\"{}\"", id.replace('"', "\"\""));
        let line = |(x, y, is_same): &(Name, Name, bool)| {
            format!("{},{},{}\n", quoted(&x.1), quoted(&y.1), if *is_same { "same" } else { "different" })
        };
        let lines: String = self.0[from..].iter().map(line).collect();
        format!("id_a,id_b,verdict\n{lines}")
    }
}
