//! fastjson's conversions from what was written to what a Java field holds (`IntegerCodec`,
//! `LongCodec`, `BooleanCodec`, `StringCodec`, `TypeUtils`). `Ok(None)` means that the field
//! keeps its default.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::fastjson::write_string;
use super::{JsonError, Value};

/// Largest distance of the decimal point that Java still turns into an integer.
const MAX_SCALE: i64 = 100;

/// The value of an `int` field. Decimals are truncated and wrap; integers and digits in a string
/// must fit; `null`, `""` and `"null"` are `None`.
pub fn int32(value: &Value<'_>) -> Result<Option<i32>, JsonError> {
    const ERROR: JsonError = JsonError::Value("int32");
    if let Value::Number(raw) = value
        && let Ok(plain) = raw.parse()
    {
        return Ok(Some(plain));
    }
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(i32::from(*value))),
        Value::Number(raw) => match Number::read(raw) {
            Number::Integer(digits) => digits.parse().map(Some).map_err(|_| ERROR),
            Number::Decimal(decimal) => decimal.wrapped().map(|v| Some(v as i32)).ok_or(ERROR),
        },
        Value::String(text) if is_null(text) => Ok(None),
        Value::String(text) => {
            let text = without_commas(text);
            without_zero_decimals(&text)
                .parse()
                .map(Some)
                .map_err(|_| ERROR)
        }
        Value::Array(_) | Value::Object(_) => Err(ERROR),
    }
}

/// The value of a `long` field, by the rules of [`int32`]; a string must be an integer here.
pub fn int64(value: &Value<'_>) -> Result<Option<i64>, JsonError> {
    const ERROR: JsonError = JsonError::Value("int64");
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(i64::from(*value))),
        Value::Number(raw) => match Number::read(raw) {
            Number::Integer(digits) => digits.parse().map(Some).map_err(|_| ERROR),
            Number::Decimal(decimal) => decimal.wrapped().map(|v| Some(v as i64)).ok_or(ERROR),
        },
        Value::String(text) if is_null(text) => Ok(None),
        Value::String(text) => without_commas(text).parse().map(Some).map_err(|_| ERROR),
        Value::Array(_) | Value::Object(_) => Err(ERROR),
    }
}

/// The value of a `boolean` field: 1 and only 1 is true among numbers; of strings those are taken
/// that fastjson knows.
pub fn boolean(value: &Value<'_>) -> Result<Option<bool>, JsonError> {
    const ERROR: JsonError = JsonError::Value("boolean");
    match value {
        Value::Null => Ok(None),
        Value::Bool(value) => Ok(Some(*value)),
        Value::Number(_) => match int32(value) {
            Ok(number) => Ok(number.map(|number| number == 1)),
            Err(_) => Err(ERROR),
        },
        Value::String(text) if is_null(text) => Ok(None),
        Value::String(text) => match &**text {
            "1" | "Y" | "T" => Ok(Some(true)),
            "0" | "N" | "F" => Ok(Some(false)),
            word if word.eq_ignore_ascii_case("true") => Ok(Some(true)),
            word if word.eq_ignore_ascii_case("false") => Ok(Some(false)),
            _ => Err(ERROR),
        },
        Value::Array(_) | Value::Object(_) => Err(ERROR),
    }
}

/// The value of a `String` field: integers as written without their suffix, decimals as
/// `BigDecimal` prints them (`1.50`, `1E+5`), containers as compact JSON with ascending keys
/// (Java: hash order). Fails for an exponent beyond 32 bits.
pub fn text<'a>(value: Value<'a>) -> Result<Option<Cow<'a, str>>, JsonError> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(true) => Cow::Borrowed("true"),
        Value::Bool(false) => Cow::Borrowed("false"),
        Value::Number(raw) => number_text(raw)?,
        Value::String(text) => text,
        Value::Array(_) | Value::Object(_) => {
            let mut out = Vec::new();
            write_compact(&mut out, &value)?;
            Cow::Owned(String::from_utf8_lossy(&out).into_owned())
        }
    }))
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "null" | "NULL")
}

/// `5.00` is 5 in a string for an `int`, and only there.
fn without_zero_decimals(text: &str) -> &str {
    let whole = text.trim_end_matches('0');
    whole.strip_suffix('.').unwrap_or(text)
}

fn without_commas(text: &str) -> Cow<'_, str> {
    if text.contains(',') {
        Cow::Owned(text.replace(',', ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// A number split as fastjson's tokenizer does it, without the suffix of a Java literal.
enum Number<'a> {
    /// Sign and digits.
    Integer(&'a str),
    Decimal(Decimal<'a>),
}

struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    /// `None` beyond 32 bits, which Java refuses.
    exponent: Option<i32>,
}

impl<'a> Number<'a> {
    fn read(raw: &'a str) -> Self {
        let digits = raw.trim_end_matches(['L', 'S', 'B']);
        if digits.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
            return Self::Integer(digits);
        }
        let unsigned = digits.trim_end_matches(['F', 'D']).trim_start_matches('-');
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse().ok()),
            None => (unsigned, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Self::Decimal(Decimal {
            negative: raw.starts_with('-'),
            whole,
            fraction,
            exponent,
        })
    }
}

impl Decimal<'_> {
    /// Digits behind the decimal point (`BigDecimal.scale`).
    fn scale(&self) -> Option<i64> {
        let scale = self.fraction.len() as i64 - i64::from(self.exponent?);
        i32::try_from(scale).is_ok().then_some(scale)
    }

    /// The whole part modulo 2^128, of which the low bits are what Java's `intValue` gives.
    fn wrapped(&self) -> Option<u128> {
        let scale = self.scale().filter(|scale| scale.abs() <= MAX_SCALE)?;
        let zeros = usize::try_from(-scale).unwrap_or(0);
        let dropped = usize::try_from(scale).unwrap_or(0);
        let kept = (self.whole.len() + self.fraction.len()).saturating_sub(dropped);
        let digits = self.whole.bytes().chain(self.fraction.bytes()).take(kept);
        let magnitude = digits
            .chain(std::iter::repeat_n(b'0', zeros))
            .fold(0_u128, |sum, digit| {
                sum.wrapping_mul(10).wrapping_add(u128::from(digit - b'0'))
            });
        Some(if self.negative {
            magnitude.wrapping_neg()
        } else {
            magnitude
        })
    }

    /// `BigDecimal.toString`: plain unless the exponent would be positive or below -6.
    fn print(&self) -> Option<String> {
        let scale = self.scale()?;
        let all = [self.whole, self.fraction].concat();
        let digits = match all.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let adjusted = digits.len() as i64 - 1 - scale;
        let is_zero = digits == "0";
        let mut out = String::from(if self.negative && !is_zero { "-" } else { "" });
        if scale < 0 || adjusted < -6 {
            let (first, rest) = digits.split_at(1);
            out.push_str(first);
            if !rest.is_empty() {
                out.push('.');
                out.push_str(rest);
            }
            if adjusted != 0 {
                // writing to a String cannot fail
                let _ = write!(out, "E{adjusted:+}");
            }
            return Some(out);
        }
        // between 0 and the digits' length plus six, by the condition above
        let behind = usize::try_from(scale).unwrap_or(0);
        let padded = format!("{digits:0>width$}", width = behind + 1);
        let (whole, fraction) = padded.split_at(padded.len() - behind);
        out.push_str(whole);
        if !fraction.is_empty() {
            out.push('.');
            out.push_str(fraction);
        }
        Some(out)
    }
}

fn number_text(raw: &str) -> Result<Cow<'_, str>, JsonError> {
    match Number::read(raw) {
        Number::Integer(digits) => Ok(Cow::Borrowed(digits)),
        Number::Decimal(decimal) => decimal
            .print()
            .map(Cow::Owned)
            .ok_or(JsonError::Value("decimal")),
    }
}

/// Compact JSON as fastjson prints a `JSONObject`: null members are left out.
fn write_compact(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), JsonError> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(raw) => out.extend_from_slice(number_text(raw)?.as_bytes()),
        Value::String(text) => write_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_compact(out, element)?;
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let last: BTreeMap<&str, &Value<'_>> = members
                .iter()
                .map(|member| (&*member.key, &member.value))
                .collect();
            out.push(b'{');
            let mut separator = &b""[..];
            for (key, value) in last.into_iter().filter(|(_, value)| **value != Value::Null) {
                out.extend_from_slice(separator);
                separator = b",";
                write_string(out, key);
                out.push(b':');
                write_compact(out, value)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}
