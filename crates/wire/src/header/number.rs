//! Integers compared exactly by value: `f64` drops fractions beyond the sixteenth digit, so header and body could
//! agree on different numbers.

/// The largest integer that `x-mcp-header` permits, 2^53 - 1; the smallest is its negative.
pub(super) const SAFE_MAX: i64 = (1 << 53) - 1;
const SAFE_DIGITS: usize = 16;

/// The value of a JSON number that is an integer (`42`, `42.0`, `4.2e1`) within the safe range.
pub fn parse_integer(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    if !is_whole(whole) || !fraction.is_none_or(is_digits) {
        return None;
    }
    let magnitude = magnitude(whole, fraction.unwrap_or(""), exponent)?;
    Some(if negative { -magnitude } else { magnitude })
}

/// `whole.fraction * 10^exponent`, if that is an integer in range.
fn magnitude(whole: &str, fraction: &str, exponent: i64) -> Option<i64> {
    let digits = || whole.bytes().chain(fraction.bytes());
    let significant = digits().skip_while(|d| *d == b'0').count();
    if significant == 0 {
        return Some(0);
    }
    let trailing = digits().rev().take_while(|d| *d == b'0').count();
    // Without their trailing zeros the digits are an integer times 10^scale.
    let scale = exponent
        .checked_sub(i64::try_from(fraction.len()).ok()?)?
        .checked_add(i64::try_from(trailing).ok()?)?;
    let scale = usize::try_from(scale).ok()?;
    let kept = significant - trailing;
    if kept.checked_add(scale)? > SAFE_DIGITS {
        return None;
    }
    let skipped = whole.len() + fraction.len() - significant;
    let value = digits()
        .skip(skipped)
        .take(kept)
        .chain(std::iter::repeat_n(b'0', scale))
        .fold(0i64, |value, digit| value * 10 + i64::from(digit - b'0'));
    (value <= SAFE_MAX).then_some(value)
}

fn is_whole(text: &str) -> bool {
    is_digits(text) && (text.len() == 1 || !text.starts_with('0'))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !is_digits(digits) {
        return None;
    }
    text.parse().ok()
}
