//! Numbers with more digits than a double holds, compared as they are written.
//!
//! `serde_json` reads a number that is no 64-bit integer as a double, and the validator compares doubles. Rounding keeps
//! order, so the comparison is wrong only where a number of the schema rounds to the same double. Such an argument is
//! replaced by the neighbouring double on its own side, which compares as the digits do; where that cannot be told
//! (`multipleOf`, a fraction where doubles have none) the argument is refused. What is sent is always what came.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Decimals of up to this many digits come back from a double as they were.
const EXACT_DIGITS: usize = 15;
/// Digits that are told from others; a longer number is no value that a program computes with.
const DIGITS_MAX: usize = 4096;

/// Numbers of a schema that round to one double: each costs a comparison per argument.
const TIES_MAX: usize = 8;

/// A decimal number: 0.d1d2d3... times ten to the power of `exponent`; no zeros at either end of the digits.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads a JSON number; `None` where its exponent is beyond any comparison.
    fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()?),
            None => (text, 0_i64),
        };
        let (is_negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat().into_bytes();
        let zeros = all.iter().take_while(|digit| **digit == b'0').count();
        let end = all.iter().rposition(|digit| *digit != b'0');
        let digits = end.map_or_else(Vec::new, |end| all[zeros..=end].to_vec());
        let exponent = match digits.is_empty() {
            true => 0,
            false => exponent.checked_add(whole.len() as i64 - zeros as i64)?,
        };
        Some(Self {
            is_negative: is_negative && !digits.is_empty(),
            digits,
            exponent,
        })
    }

    fn is_whole(&self) -> bool {
        self.digits.len() as i64 <= self.exponent.max(0)
    }

    /// The value as an integer that `serde_json` holds exactly.
    fn to_integer(&self) -> Option<Number> {
        if !self.is_whole() || self.exponent > 20 {
            return None;
        }
        let mut text = String::from(if self.is_negative { "-" } else { "" });
        text.extend(self.digits.iter().map(|digit| char::from(*digit)));
        text.extend(std::iter::repeat_n(
            '0',
            self.exponent as usize - self.digits.len(),
        ));
        let signed = text.parse().ok().map(|n: i64| n.into());
        signed.or_else(|| text.parse().ok().map(|n: u64| n.into()))
    }

    fn size_cmp(&self, other: &Self) -> Ordering {
        match (self.digits.is_empty(), other.digits.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => {
                (self.exponent.cmp(&other.exponent)).then_with(|| self.digits.cmp(&other.digits))
            }
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.size_cmp(other),
            (true, true) => other.size_cmp(self),
        }
    }
}

/// The numbers that a schema names, and whether it divides by one.
#[derive(Default)]
pub(super) struct Constants {
    /// In the order of the doubles that they round to.
    numbers: Vec<(f64, Number)>,
    has_multiple_of: bool,
}

impl Constants {
    pub(super) fn of(schema: &Value) -> Self {
        let mut found = Self::default();
        found.collect(schema);
        found.numbers.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        found.numbers.dedup();
        found
    }

    fn collect(&mut self, value: &Value) {
        match value {
            // Zero has one sign.
            Value::Number(number) => {
                (self.numbers).extend(number.as_f64().map(|double| (double + 0.0, number.clone())))
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                self.has_multiple_of |= members.contains_key("multipleOf");
                self.has_multiple_of |= members.contains_key("divisibleBy");
                members.values().for_each(|member| self.collect(member));
            }
            _ => {}
        }
    }

    fn rounding_to(&self, double: f64) -> impl Iterator<Item = &Number> {
        let first = self.numbers.partition_point(|(other, _)| *other < double);
        let tied = self.numbers[first..].iter();
        tied.take_while(move |(other, _)| *other == double)
            .map(|(_, number)| number)
    }

    /// Makes the numbers of arguments, read from `raw`, compare with the schema's as their digits do; the error is a
    /// number that cannot.
    pub(super) fn settle(&self, raw: &[u8], value: &mut Value) -> Result<(), String> {
        if !is_suspicious(raw) {
            return Ok(());
        }
        let mut tokens = number_tokens(raw);
        self.settle_all(value, &mut tokens)
    }

    /// Tokens and values are in the order of the document: `serde_json` keeps it, and no key is repeated.
    fn settle_all<'t>(
        &self,
        value: &mut Value,
        tokens: &mut impl Iterator<Item = &'t str>,
    ) -> Result<(), String> {
        match value {
            Value::Number(number) => {
                let token = tokens.next().ok_or_else(String::new)?;
                if number.is_f64() {
                    *number = self
                        .settled(token, number)
                        .ok_or_else(|| token.to_owned())?;
                }
                Ok(())
            }
            Value::Array(items) => (items.iter_mut()).try_for_each(|v| self.settle_all(v, tokens)),
            Value::Object(all) => (all.values_mut()).try_for_each(|v| self.settle_all(v, tokens)),
            _ => Ok(()),
        }
    }

    fn settled(&self, token: &str, number: &Number) -> Option<Number> {
        let double = number.as_f64()?;
        if token.len() <= EXACT_DIGITS && (double.is_normal() || is_zero(token)) {
            return Some(number.clone());
        }
        let exact = Decimal::parse(token).filter(|exact| exact.digits.len() <= DIGITS_MAX)?;
        if let Some(integer) = exact.to_integer() {
            return Some(integer);
        }
        let shortest = Decimal::parse(&format!("{double:e}"))?;
        if exact == shortest {
            return Some(number.clone());
        }
        if self.has_multiple_of {
            return None;
        }
        // What is whole must not become a fraction, nor the reverse.
        let is_rounded_whole = !exact.is_whole() && double.fract() == 0.0;
        let mut side = is_rounded_whole.then(|| exact.compare(&shortest));
        for (n, tied) in self.rounding_to(double).enumerate() {
            let of_tied = exact.compare(&Decimal::parse(&tied.to_string())?);
            if n == TIES_MAX || side.is_some_and(|side| side != of_tied) {
                return None;
            }
            side = Some(of_tied);
        }
        let neighbour = match side {
            None | Some(Ordering::Equal) => return Some(number.clone()),
            Some(Ordering::Less) => double.next_down(),
            Some(Ordering::Greater) => double.next_up(),
        };
        if is_rounded_whole && neighbour.fract() == 0.0 {
            return None;
        }
        let is_taken = self.rounding_to(neighbour).next().is_some();
        Number::from_f64(neighbour).filter(|_| !is_taken)
    }
}

fn is_zero(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or_default();
    !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Whether there may be a number that a double does not hold: many digits, or close to zero. One pass without memory.
fn is_suspicious(raw: &[u8]) -> bool {
    let mut digits = 0;
    let mut before = 0;
    for byte in raw {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'.' => {}
            b'-' if matches!(before, b'e' | b'E') && digits > 0 => return true,
            b'e' | b'E' if digits > 0 => {}
            _ => digits = 0,
        }
        if digits > EXACT_DIGITS {
            return true;
        }
        before = *byte;
    }
    false
}

/// The number tokens of a JSON text, in order.
fn number_tokens(raw: &[u8]) -> impl Iterator<Item = &str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < raw.len() {
            match raw[at] {
                b'"' => {
                    at += 1;
                    while at < raw.len() && raw[at] != b'"' {
                        at += 1 + usize::from(raw[at] == b'\\');
                    }
                    at += 1;
                }
                b'-' | b'0'..=b'9' => {
                    let is_part =
                        |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                    let len = raw[at..].iter().take_while(|byte| is_part(byte)).count();
                    let token = &raw[at..at + len];
                    at += len;
                    return std::str::from_utf8(token).ok();
                }
                _ => at += 1,
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::Schema;

    fn accepts(schema: &'static str, number: &str) -> bool {
        let all = format!(r#"{{"type":"object","properties":{{"n":{schema}}}}}"#);
        let schema = Schema::new(Some(Bytes::from(all)));
        let arguments = format!(r#"{{"s":"1e-9\"7","n":{number}}}"#);
        schema.issues(arguments.as_bytes()).is_empty()
    }

    const MAX: &str = r#"{"maximum":9007199254740992}"#;
    const WHOLE: &str = r#"{"type":"integer"}"#;

    /// A schema, numbers that it allows, and numbers that it does not.
    type Row = (
        &'static str,
        &'static [&'static str],
        &'static [&'static str],
    );

    const ROWS: [Row; 12] = [
        (
            MAX,
            &[
                "9007199254740992",
                "9007199254740992.0",
                "-1e300",
                "1E+2",
                "-0",
            ],
            &[
                "9007199254740992.9",
                "9007199254740993",
                "9007199254740993.0",
                "1e16",
                "1e400",
            ],
        ),
        (
            r#"{"minimum":0.1}"#,
            &["0.1", "0.10000000000000000", "0.10000000000000000001", "1"],
            &[
                "0.09999999999999999999",
                "0.0999999999999999999999",
                "-0",
                "1e-400",
            ],
        ),
        (
            r#"{"maximum":0}"#,
            &["0", "-0", "0.000000000000000000", "0e-400", "-1e-400"],
            &["1e-400", "0.00000000000000000000001"],
        ),
        (
            r#"{"exclusiveMinimum":0}"#,
            &["1e-400", "5e-324", "0.00000000000000000000001"],
            &["0", "-0", "0e5", "-1e-400"],
        ),
        (
            r#"{"exclusiveMaximum":1}"#,
            &["0.99999999999999999999", "0.9"],
            &["1", "1.0", "1.00000000000000000001"],
        ),
        (
            r#"{"enum":[0.3,18446744073709551615]}"#,
            &[
                "0.3",
                "0.30",
                "0.300000000000000000",
                "18446744073709551615",
                "18446744073709551615.0",
            ],
            &[
                "0.30000000000000000001",
                "18446744073709551616",
                "18446744073709551617",
                "18446744073709551615.5",
            ],
        ),
        (
            r#"{"const":1e20}"#,
            &["100000000000000000000", "1e20"],
            &["100000000000000000001", "99999999999999999999"],
        ),
        (
            r#"{"maximum":18446744073709551615}"#,
            &["18446744073709551615"],
            &["18446744073709551616", "18446744073709551617"],
        ),
        (
            WHOLE,
            &[
                "1",
                "1.0",
                "1E+2",
                "-0",
                "1e30",
                "100000000000000000001",
                "9007199254740993.0",
            ],
            &[
                "9007199254740992.9",
                "1.5",
                "1.00000000000000000001",
                "123456789012345678901234567890.5",
            ],
        ),
        (
            r#"{"multipleOf":3}"#,
            &["9", "9007199254740993", "9007199254740993.0"],
            &["9007199254740992", "9.00000000000000000001"],
        ),
        // Nothing is said of its value.
        (
            r#"{"type":"number"}"#,
            &[
                "0.30000000000000000001",
                "3.14159265358979323846264338327950288",
            ],
            &["1e400"],
        ),
        // As C prints doubles.
        (
            r#"{"minimum":0,"maximum":1}"#,
            &["0.10000000000000001", "0.29999999999999999"],
            &["1.0000000000000002"],
        ),
    ];

    #[test]
    fn issue_17_7_numbers_are_compared_by_their_digits() {
        for (schema, good, bad) in ROWS {
            for number in good {
                assert!(accepts(schema, number), "{number} by {schema}");
            }
            for number in bad {
                assert!(!accepts(schema, number), "{number} by {schema}");
            }
        }
    }
}
