//! Writes JSON scalars byte for byte as fastjson 1 writes them (`JSONSerializer`).
//!
//! Two forms: the default one, for headers and all bodies, and `BrowserCompatible`, for the
//! standard form of a route only. Both copy runs of harmless bytes whole. Deliberately absent:
//! objects, arrays and their commas, which each answer lays out itself, because fastjson's
//! order of fields is part of every format.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Writes `text` with its quotes in the default form: short forms and upper-case `\uXXXX` for
/// U+0000–001F, U+007F–009F, U+2028 and U+2029; everything else, also `/`, as it is.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    write_with(
        out,
        text,
        |c| matches!(c, '"' | '\\' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}'),
    );
}

/// Writes `text` with its quotes in the `BrowserCompatible` form: as [`write_string`], and also
/// `/` as `\/` and everything from U+007F on as `\uXXXX` of its UTF-16 units: pure ASCII.
pub fn write_string_standard(out: &mut Vec<u8>, text: &str) {
    write_with(
        out,
        text,
        |c| matches!(c, '"' | '\\' | '/' | '\0'..='\x1f' | '\x7f'..),
    );
}

/// Writes a number in decimal.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a number in the `BrowserCompatible` form: what a double of JavaScript cannot hold
/// exactly, beyond 2^53 - 1 either way, has quotes.
pub fn write_i64_standard(out: &mut Vec<u8>, value: i64) {
    const EXACT: u64 = (1 << 53) - 1;
    let quote: &[u8] = if value.unsigned_abs() > EXACT {
        b"\""
    } else {
        b""
    };
    out.extend_from_slice(quote);
    write_i64(out, value);
    out.extend_from_slice(quote);
}

/// Writes a number in decimal.
pub fn write_i32(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Copies runs that need no look at single characters, and asks `escaped` about the others.
#[inline]
fn write_with(out: &mut Vec<u8>, text: &str, escaped: impl Fn(char) -> bool) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    loop {
        let (run, tail) = rest.split_at(harmless_bytes(rest.as_bytes()));
        out.extend_from_slice(run.as_bytes());
        let mut chars = tail.chars();
        let Some(c) = chars.next() else { break };
        rest = chars.as_str();
        if escaped(c) {
            write_escape(out, c);
        } else {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    out.push(b'"');
}

/// Length of the prefix of printable ASCII without `"`, `\` and `/`. It ends at a boundary of
/// characters, because every byte of a longer character ends it.
#[inline]
fn harmless_bytes(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes[at..].first_chunk::<8>() {
        let lanes = u64::from_le_bytes(*chunk);
        let stops = lanes_equal(lanes, b'"')
            | lanes_equal(lanes, b'\\')
            | lanes_equal(lanes, b'/')
            | lanes_equal(lanes, 0x7f)
            | lanes_below_blank(lanes)
            | (lanes & HIGH_BITS);
        if stops != 0 {
            return at + first_lane(stops);
        }
        at += 8;
    }
    let is_harmless = |b: &u8| matches!(b, b' '..=b'~') && !matches!(b, b'"' | b'\\' | b'/');
    at + bytes[at..].iter().take_while(|b| is_harmless(b)).count()
}

fn write_escape(out: &mut Vec<u8>, c: char) {
    let short = match c {
        '"' => b'"',
        '\\' => b'\\',
        '/' => b'/',
        '\x08' => b'b',
        '\t' => b't',
        '\n' => b'n',
        '\x0c' => b'f',
        '\r' => b'r',
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write_unit(out, *unit);
            }
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_unit(out: &mut Vec<u8>, unit: u16) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |shift: u16| DIGITS[usize::from(unit >> shift & 0xf)];
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

/// The high bit of each lane that equals `byte`. Lanes behind the first hit may be wrong,
/// because a borrow runs upwards; the first one is exact.
#[inline]
pub(super) fn lanes_equal(lanes: u64, byte: u8) -> u64 {
    let differs = lanes ^ (LOW_BITS * byte as u64);
    differs.wrapping_sub(LOW_BITS) & !differs & HIGH_BITS
}

/// The high bit of each lane below 0x20, exact up to the first hit as in [`lanes_equal`].
#[inline]
pub(super) fn lanes_below_blank(lanes: u64) -> u64 {
    lanes.wrapping_sub(LOW_BITS * 0x20) & !lanes & HIGH_BITS
}

/// Index of the lowest marked lane, which is the first byte of a little-endian load.
#[inline]
pub(super) fn first_lane(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        reason = "a failed unwrap is the failure of the test"
    )]

    use proptest::prelude::*;

    use super::*;

    fn default_form(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    fn standard_form(text: &str) -> String {
        let mut out = Vec::new();
        write_string_standard(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn short_forms_are_the_same_in_both() {
        let text = "\x08\t\n\x0c\r\"\\";
        assert_eq!(default_form(text), r#""\b\t\n\f\r\"\\""#);
        assert_eq!(standard_form(text), r#""\b\t\n\f\r\"\\""#);
        assert_eq!(default_form(""), r#""""#);
    }

    #[test]
    fn other_controls_have_upper_case_digits() {
        let text = "\0\x0b\x1a\x1f\x7f\u{80}\u{9f}\u{2028}\u{2029}";
        let escaped = r#""\u0000\u000B\u001A\u001F\u007F\u0080\u009F\u2028\u2029""#;
        assert_eq!(default_form(text), escaped);
        assert_eq!(standard_form(text), escaped);
    }

    #[test]
    fn neighbours_of_escaped_characters_stay_raw() {
        let text = " ~\u{a0}\u{2027}\u{202a}é主题🚀a/b";
        assert_eq!(default_form(text), format!("\"{text}\""));
    }

    #[test]
    fn the_standard_form_escapes_slashes_and_all_but_ascii() {
        assert_eq!(
            standard_form("a/b é主🚀~"),
            r#""a\/b \u00E9\u4E3B\uD83D\uDE80~""#
        );
    }

    #[test]
    fn a_stop_is_found_at_every_place_of_a_run() {
        for at in 0..20 {
            let mut text = "x".repeat(20);
            text.replace_range(at..=at, "\n");
            let expected = format!("\"{}\\n{}\"", "x".repeat(at), "x".repeat(19 - at));
            assert_eq!(default_form(&text), expected);
        }
    }

    #[test]
    fn numbers_are_decimal() {
        let mut out = Vec::new();
        write_i64(&mut out, i64::MIN);
        write_i32(&mut out, i32::MAX);
        assert_eq!(out, b"-92233720368547758082147483647");
    }

    #[test]
    fn the_standard_form_quotes_what_a_double_cannot_hold() {
        let standard = |value| {
            let mut out = Vec::new();
            write_i64_standard(&mut out, value);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(standard(9_007_199_254_740_991), "9007199254740991");
        assert_eq!(standard(-9_007_199_254_740_991), "-9007199254740991");
        assert_eq!(standard(9_007_199_254_740_992), "\"9007199254740992\"");
        assert_eq!(standard(-9_007_199_254_740_992), "\"-9007199254740992\"");
        assert_eq!(standard(i64::MIN), "\"-9223372036854775808\"");
    }

    proptest! {
        #[test]
        fn readers_get_the_text_back(
            text in prop_oneof![any::<String>(), "[\\x00-\\xff\u{2020}-\u{2030}]{0,40}"],
        ) {
            let default = default_form(&text);
            let standard = standard_form(&text);
            prop_assert_eq!(&serde_json::from_str::<String>(&default).unwrap(), &text);
            prop_assert_eq!(&serde_json::from_str::<String>(&standard).unwrap(), &text);
            prop_assert!(standard.bytes().all(|b| matches!(b, b' '..=b'~')));
        }
    }
}
