//! Normalisation: a rule for words, a number of steps, the steps, and the text.

use resemblance::job::{Normalize, Words};
use resemblance::kernel::text::normalize::Normalizer;

use super::definitions;

fn step(byte: u8) -> Normalize {
    match byte % 9 {
        0 => Normalize::Lowercase,
        1 => Normalize::LettersOnly,
        2 => Normalize::CollapseWhitespace,
        3 => Normalize::DigitsOut,
        4 => Normalize::StopWords("en".into()),
        5 => Normalize::StopWords("de".into()),
        6 => Normalize::StopWords("tr".into()),
        7 => Normalize::SpacesToUnderscores,
        _ => Normalize::Nfkc,
    }
}

/// Steps that change nothing more when they are done again.
fn settles(step: &Normalize) -> bool {
    !matches!(step, Normalize::DigitsOut | Normalize::StopWords(_))
}

fn normalized(text: &str, steps: &[Normalize], rule: Words) -> String {
    Normalizer::new(steps, rule).expect("the languages are known").piece(text).to_owned()
}

/// Steps do what their definitions say, one after the other; each settles; and a text may come in pieces.
pub fn check(bytes: &[u8]) {
    let [rule, count, rest @ ..] = bytes else { return };
    let rule = definitions::rule(*rule);
    let count = (usize::from(*count) % 5).min(rest.len());
    let (steps, text) = rest.split_at(count);
    let steps: Vec<Normalize> = steps.iter().map(|byte| step(*byte)).collect();
    let text = String::from_utf8_lossy(text);

    let expected =
        steps.iter().fold(text.clone().into_owned(), |text, step| definitions::step(&text, step, rule));
    let found = normalized(&text, &steps, rule);
    assert_eq!(found, expected, "{steps:?} by {rule:?} of {text:?}");
    for step in steps.iter().filter(|step| settles(step)) {
        let once = normalized(&text, std::slice::from_ref(step), rule);
        assert_eq!(normalized(&once, std::slice::from_ref(step), rule), once, "{step:?} twice over {text:?}");
    }

    let underscores = steps.iter().position(|step| *step == Normalize::SpacesToUnderscores);
    if steps[underscores.unwrap_or(steps.len())..].iter().any(|step| !settles(step)) {
        // Once white space has become underscores, words cannot be distinguished from pieces of words.
        return;
    }
    let mut normalizer = Normalizer::new(&steps, rule).expect("the languages are known");
    normalizer.piece("What came before ");
    normalizer.begin();
    let mut joined = String::new();
    let mut from = 0;
    for at in 1..text.len() {
        let (before, after) = (text.as_bytes()[at - 1], text.as_bytes()[at]);
        if before.is_ascii_whitespace() && after.is_ascii_alphabetic() {
            joined.push_str(normalizer.piece(&text[from..at]));
            from = at;
        }
    }
    joined.push_str(normalizer.piece(&text[from..]));
    assert_eq!(joined, expected, "{steps:?} by {rule:?} of {text:?} in pieces");
}
