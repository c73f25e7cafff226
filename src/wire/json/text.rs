//! Strings as they stand in the document, and their unescaping.

use std::borrow::Cow;

use memchr::memchr2;

use super::super::fastjson::{first_lane, lanes_equal};

/// Strings up to this length are searched eight bytes a step, which beats the set-up of a vector
/// search; nearly all keys and names are shorter.
const SHORT_BYTES: usize = 32;

/// A string between its quotes. Its escapes, and that it is UTF-8, were checked when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escaped: bool,
}

impl<'a> Text<'a> {
    /// Bytes it takes in the document; never less than a sixth of what is left unescaped.
    pub fn raw_bytes(&self) -> usize {
        self.raw.len()
    }

    /// What stands in the document, escapes and all.
    pub fn as_written(self) -> &'a str {
        // checked when it was read
        str::from_utf8(self.raw).unwrap_or_default()
    }

    /// The value of one to nine plain digits, which is what nearly every number is.
    #[inline]
    pub fn short_integer(self) -> Option<i32> {
        let (number, rest) = leading_integer(self.raw)?;
        rest.is_empty().then_some(number)
    }

    /// The text, borrowed when there is nothing to unescape.
    pub fn decode(self) -> Cow<'a, str> {
        if self.escaped {
            Cow::Owned(unescape(self.as_written()))
        } else {
            Cow::Borrowed(self.as_written())
        }
    }

    /// Whether the unescaped text equals `other`, which costs no more than `other` is long.
    #[inline]
    pub fn is(self, other: &str) -> bool {
        if self.escaped {
            // an escape takes at most six characters for one
            self.raw.len() <= 6 * other.len() && self.decode() == other
        } else {
            self.raw == other.as_bytes()
        }
    }
}

/// The value of the one to nine digits at the start of `bytes`, and what follows them; `None` when
/// there are more, which may not fit.
#[inline]
pub fn leading_integer(bytes: &[u8]) -> Option<(i32, &[u8])> {
    const MOST: usize = 9;
    let some = bytes.iter().take(MOST + 1);
    let digits = some.take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > MOST {
        return None;
    }
    let (digits, rest) = bytes.split_at(digits);
    let add = |sum, digit: &u8| 10 * sum + i32::from(digit - b'0');
    Some((digits.iter().fold(0, add), rest))
}

/// The string in double quotes, without escapes, at the start of `bytes`.
#[inline]
pub fn plain_string(bytes: &[u8]) -> Option<&str> {
    let bytes = bytes.strip_prefix(b"\"")?;
    let end = find_end(bytes, 0, bytes.len(), b'"')?;
    let is_escape = bytes[end] == b'\\';
    str::from_utf8(&bytes[..end]).ok().filter(|_| !is_escape)
}

/// The first quote or backslash in `from..stop`.
#[inline]
pub(super) fn find_end(bytes: &[u8], from: usize, stop: usize, quote: u8) -> Option<usize> {
    let bytes = bytes.get(from..stop)?;
    let (chunks, rest) = bytes[..bytes.len().min(SHORT_BYTES)].as_chunks();
    for (index, chunk) in chunks.iter().enumerate() {
        let lanes = u64::from_le_bytes(*chunk);
        let hits = lanes_equal(lanes, quote) | lanes_equal(lanes, b'\\');
        if hits != 0 {
            return Some(from + 8 * index + first_lane(hits));
        }
    }
    let searched = 8 * chunks.len();
    if rest.len() + searched == bytes.len() {
        let at = rest
            .iter()
            .position(|&byte| byte == quote || byte == b'\\')?;
        return Some(from + searched + at);
    }
    memchr2(quote, b'\\', &bytes[searched..]).map(|at| from + searched + at)
}

/// Bytes of the escape at the start of `rest`, which begins behind the backslash; `None` when
/// fastjson would refuse it.
pub(super) fn escape_bytes(rest: &[u8]) -> Option<usize> {
    let hex = |from: usize, to: usize| {
        rest.get(from..to)
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    match rest.first()? {
        b'0'..=b'7' | b'b' | b't' | b'n' | b'v' | b'f' | b'F' | b'r' => Some(1),
        b'"' | b'\'' | b'/' | b'\\' => Some(1),
        b'x' if hex(1, 3) => Some(3),
        b'u' if hex(1, 5) => Some(5),
        _ => None,
    }
}

/// Undoes checked escapes. Half of a surrogate pair becomes `?`, which is what Java writes for
/// it when it encodes the string again.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let length = escape_bytes(escape.as_bytes()).unwrap_or(escape.len());
        rest = &escape[length..];
        let unit = code_unit(&escape[..length]);
        if (0xD800..0xDC00).contains(&unit) && rest.starts_with("\\u") {
            let low = rest.get(2..6).map_or(0, hex_value);
            if (0xDC00..0xE000).contains(&low) {
                let scalar = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
                out.push(char::from_u32(scalar).unwrap_or('?'));
                rest = &rest[6..];
                continue;
            }
        }
        out.push(char::from_u32(unit).unwrap_or('?'));
    }
    out.push_str(rest);
    out
}

/// The UTF-16 code unit that an escape stands for; the backslash is not part of it.
fn code_unit(escape: &str) -> u32 {
    let first = escape.bytes().next().unwrap_or(b'?');
    match first {
        b'0'..=b'7' => u32::from(first - b'0'),
        b'b' => 8,
        b't' => 9,
        b'n' => 10,
        b'v' => 11,
        b'f' | b'F' => 12,
        b'r' => 13,
        b'x' | b'u' => hex_value(&escape[1..]),
        other => u32::from(other),
    }
}

fn hex_value(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).unwrap_or('?' as u32)
}
