//! Parses and checks values in a job file: lists, numbers, sizes, and small settings files.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::machine;

/// A broken rule for a key. The message consists of the key and `fault`.
pub(crate) struct Wrong {
    pub(crate) key: Cow<'static, str>,
    pub(crate) fault: String,
}

pub(crate) type Checked<T> = std::result::Result<T, Wrong>;

pub(super) fn wrong<T>(key: &'static str, fault: impl Into<String>) -> Checked<T> {
    Err(Wrong { key: key.into(), fault: fault.into() })
}

/// Returns an error about `key` with this `fault` unless the rule is met.
pub(super) fn require(is_met: bool, key: &'static str, fault: impl Into<String>) -> Checked<()> {
    if is_met { Ok(()) } else { wrong(key, fault) }
}

/// One string, or a list of strings. The written form is kept, because `source.id` distinguishes the two forms.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum Names {
    /// `"a"`
    One(String),
    /// `["a", "b"]`
    Many(Vec<String>),
}

impl Names {
    /// Returns the strings in the order of the file.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Names::One(name) => vec![name],
            Names::Many(names) => names,
        }
    }

    /// Returns the strings. Refuses an empty list and empty strings. In messages, `noun` describes one string.
    pub(super) fn filled(self, key: &'static str, noun: &str) -> Checked<Vec<String>> {
        let names = self.into_vec();
        let is_filled = !names.is_empty() && names.iter().all(|name| !name.trim().is_empty());
        require(is_filled, key, format!("is empty: expected a {noun}, or a list of them"))?;
        Ok(names)
    }
}

pub(super) struct Scalar {
    pub text: String,
    pub is_number: bool,
}

pub(super) fn scalar<'de, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
) -> std::result::Result<Scalar, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Number(number) if !number.is_f64() => Ok(Scalar { text: number.to_string(), is_number: true }),
        Value::String(text) => Ok(Scalar { text, is_number: false }),
        _ => Err(de::Error::custom(format!("expected {expected}"))),
    }
}

pub(super) fn number_or_text(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["integer", "string"] })
}

/// The result of a parser of arguments. The error lists the allowed values.
pub(crate) type ParsedArgument<T> = std::result::Result<T, String>;

pub(crate) fn whole<T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> ParsedArgument<T> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

pub(crate) fn similarity(text: &str) -> ParsedArgument<f64> {
    let similarity = text.trim().parse().ok().filter(|similarity| *similarity > 0.0 && *similarity <= 1.0);
    similarity.ok_or_else(|| "expected a number over 0 and at most 1".to_owned())
}

pub(crate) fn share(text: &str) -> ParsedArgument<f64> {
    let share = text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Units by their lowercase names: decimal with `B`, and binary with `iB` (IEC 80000-13) or without a suffix, like the options of the JVM.
const UNITS: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
];

/// Parses an amount of memory to bytes, such as `4GiB`, `4G`, `1.5 GB` or `1048576`. Also parses a share of the memory of the machine or
/// container, such as `50%`. Ignores case. Fails with `Kind::Job` for other texts, 0, and 2^64 bytes or more.
pub(crate) fn parse_size(text: &str) -> Result<u64> {
    let wrong = || {
        Error::job(format!(
            "{text:?} is not an amount of memory: expected a number over 0 with B, kB, MB, GB, TB, KiB, MiB, GiB or \
             TiB, as in \"4GiB\", or a share of the machine's memory, as in \"50%\""
        ))
    };
    let lower = text.trim().to_ascii_lowercase();
    if let Some(percent) = lower.strip_suffix('%') {
        let percent = percent.trim_end().parse::<u8>().ok().filter(|percent| (1..=100).contains(percent));
        let all = machine::memory().unwrap_or(machine::UNKNOWN);
        return Ok(all / 100 * u64::from(percent.ok_or_else(wrong)?));
    }
    let (number, unit) = UNITS
        .iter()
        .find_map(|&(name, bytes)| lower.strip_suffix(name).map(|number| (number.trim_end(), bytes)))
        .unwrap_or((lower.as_str(), 1));
    // Only digits and a point are allowed: f64's parser also accepts "inf", "nan", "1e9" and "-1".
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit).ok_or_else(wrong)?,
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| wrong())? * unit as f64;
            if bytes >= u64::MAX as f64 {
                return Err(wrong());
            }
            bytes as u64
        }
    };
    if bytes == 0 { Err(wrong()) } else { Ok(bytes) }
}

/// Formats an amount of memory for [`parse_size`]. The unit is the largest in which the amount is a whole number.
pub(super) fn shown(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| bytes > 0 && bytes.is_multiple_of(1 << bits)) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => bytes.to_string(),
    }
}

/// Reads a UTF-8 settings file of at most `max_bytes` bytes. In messages, `what` follows the path, and `expected` is the advice about a
/// file that is not UTF-8. Fails with `Kind::Job` if the file cannot be read, is too large or is not UTF-8.
pub(super) fn read_setting(path: &str, what: &str, max_bytes: u64, expected: &str) -> Result<String> {
    let unread = |e| Error::job(format!("names {path:?}, {what} cannot be read")).because(e);
    if std::fs::metadata(path).map_err(unread)?.len() > max_bytes {
        return Err(Error::job(format!("names {path:?}, {what} is larger than {max_bytes} bytes")));
    }
    String::from_utf8(std::fs::read(path).map_err(unread)?)
        .map_err(|_| Error::job(format!("names {path:?}, {what} is not UTF-8: {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_shares_are_read() {
        for (text, expected) in [
            ("4GiB", 4 << 30),
            ("4gib", 4 << 30),
            ("512 MiB", 512 << 20),
            ("1.5GB", 1_500_000_000),
            ("10kB", 10_000),
            ("7B", 7),
            ("4G", 4 << 30),
            ("64m", 64 << 20),
            ("1048576", 1 << 20),
            (" 2TiB ", 2 << 40),
        ] {
            assert_eq!(parse_size(text).unwrap(), expected, "{text}");
        }
        let (half, all) = (parse_size("50%").unwrap(), parse_size("100 %").unwrap());
        assert!(half > 0 && half.abs_diff(all / 2) < 100, "{half} of {all}");
        let texts =
            "|GiB|0|0.0GB|-1GB|4 GiBs|1e9|inf|nan|4Gi|0%|101%|half|1.2.3MB|20000000TiB|99999999999.5TiB";
        for text in texts.split('|') {
            let error = parse_size(text).unwrap_err().to_string();
            assert!(error.contains("GiB"), "{text}: {error}");
        }
    }
}
