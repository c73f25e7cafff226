//! Reads the JSON of answers: enough to judge them, fast enough to judge many.
//!
//! A reader of its own, so that a mistake in the server's writer is not hidden by the same
//! mistake in its reader. It takes what RocketMQ clients take: bare integer keys beside strict
//! JSON. Invariant: it never panics, whatever the bytes.

use std::borrow::Cow;

use thiserror::Error;

/// Not JSON, or not what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unreadable JSON at byte {0}")]
pub struct BadJson(pub usize);

/// A place in a text.
#[derive(Clone, Debug)]
pub struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Deepest nesting that is skipped.
const MAX_DEPTH: usize = 32;

impl<'a> Scan<'a> {
    /// The beginning of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Reads an object; `member` must read the value of each key.
    ///
    /// # Errors
    /// Not an object, or what `member` returns.
    pub fn object<E: From<BadJson>>(
        &mut self,
        mut member: impl FnMut(&mut Self, &str) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            self.expect(b':')?;
            member(self, &key)?;
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads an array; `item` must read each value.
    ///
    /// # Errors
    /// Not an array, or what `item` returns.
    pub fn array<E: From<BadJson>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads a string.
    ///
    /// # Errors
    /// Not a string, or one that is not UTF-8.
    pub fn string(&mut self) -> Result<Cow<'a, str>, BadJson> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => return self.escaped_string(start).map(Cow::Owned),
                Some(_) => self.at += 1,
                None => return Err(BadJson(self.at)),
            }
        }
        let text = std::str::from_utf8(&self.bytes[start..self.at]);
        self.at += 1;
        text.map(Cow::Borrowed).map_err(|_| BadJson(start))
    }

    /// Reads an integer.
    ///
    /// # Errors
    /// Not an integer of 64 bits.
    pub fn integer(&mut self) -> Result<i64, BadJson> {
        self.space();
        let start = self.at;
        while matches!(self.bytes.get(self.at), Some(b'-' | b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        digits.parse().map_err(|_| BadJson(start))
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Anything else.
    pub fn boolean(&mut self) -> Result<bool, BadJson> {
        self.space();
        let rest = &self.bytes[self.at..];
        for (word, value) in [("true", true), ("false", false)] {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(BadJson(self.at))
    }

    /// Reads any value and forgets it.
    ///
    /// # Errors
    /// No value there, or one that is nested too deeply.
    pub fn skip(&mut self) -> Result<(), BadJson> {
        self.skip_value(0)
    }

    /// Nothing but white space is left.
    ///
    /// # Errors
    /// Something is.
    pub fn end(&mut self) -> Result<(), BadJson> {
        self.space();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(BadJson(self.at))
        }
    }

    fn skip_value(&mut self, depth: usize) -> Result<(), BadJson> {
        self.space();
        if depth > MAX_DEPTH {
            return Err(BadJson(self.at));
        }
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(|scan, _| scan.skip_value(depth + 1)),
            Some(b'[') => self.array(|scan| scan.skip_value(depth + 1)),
            Some(b'"') => self.string().map(drop),
            Some(b't' | b'f') => self.boolean().map(drop),
            Some(b'n') if self.bytes[self.at..].starts_with(b"null") => {
                self.at += 4;
                Ok(())
            }
            _ => self.integer().map(drop),
        }
    }

    fn key(&mut self) -> Result<Cow<'a, str>, BadJson> {
        self.space();
        if self.bytes.get(self.at) == Some(&b'"') {
            return self.string();
        }
        let start = self.at;
        self.integer()?;
        let digits = std::str::from_utf8(&self.bytes[start..self.at]);
        digits.map(Cow::Borrowed).map_err(|_| BadJson(start))
    }

    fn escaped_string(&mut self, start: usize) -> Result<String, BadJson> {
        let mut text = self.bytes[start..self.at].to_vec();
        loop {
            let byte = self.next()?;
            match byte {
                b'"' => return String::from_utf8(text).map_err(|_| BadJson(start)),
                b'\\' => {
                    let character = match self.next()? {
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'u' => self.unicode()?,
                        plain @ (b'"' | b'\\' | b'/') => char::from(plain),
                        _ => return Err(BadJson(self.at)),
                    };
                    let mut utf8 = [0; 4];
                    text.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                }
                plain => text.push(plain),
            }
        }
    }

    /// What follows `\u`; the halves of a pair stand in two escapes.
    fn unicode(&mut self) -> Result<char, BadJson> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            if (self.next()?, self.next()?) != (b'\\', b'u') {
                return Err(BadJson(self.at));
            }
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(BadJson(self.at));
            }
            0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or(BadJson(self.at))
    }

    fn hex4(&mut self) -> Result<u32, BadJson> {
        let digits = self
            .bytes
            .get(self.at..self.at + 4)
            .ok_or(BadJson(self.at))?;
        let text = std::str::from_utf8(digits).map_err(|_| BadJson(self.at))?;
        let value = u32::from_str_radix(text, 16).map_err(|_| BadJson(self.at))?;
        self.at += 4;
        Ok(value)
    }

    fn next(&mut self) -> Result<u8, BadJson> {
        let byte = self.bytes.get(self.at).ok_or(BadJson(self.at))?;
        self.at += 1;
        Ok(*byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), BadJson> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(BadJson(self.at))
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_there = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Result<String, BadJson> {
        let mut scan = Scan::new(text.as_bytes());
        let value = scan.string()?.into_owned();
        scan.end().map(|()| value)
    }

    #[test]
    fn strings_are_borrowed_or_unescaped() {
        assert_eq!(string(r#""plain""#), Ok("plain".to_owned()));
        let escaped = r#""a\/b\"\\\n\u00E9\uD83D\uDE00""#;
        assert_eq!(string(escaped), Ok("a/b\"\\\n\u{e9}\u{1f600}".to_owned()));
        for wrong in [r#""open"#, r#""\x""#, r#""\ud83d""#, r#""\uzzzz""#, "bare"] {
            assert!(string(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bare_and_quoted_integer_keys_are_keys() {
        let text = br#"{0:"a", "1" : "b",-1:"c"}"#;
        let mut seen = Vec::new();
        let mut scan = Scan::new(text);
        let read: Result<(), BadJson> = scan.object(|scan, key| {
            let value = scan.string()?.into_owned();
            seen.push((key.to_owned(), value));
            Ok(())
        });
        assert_eq!(read, Ok(()));
        let pairs: Vec<_> = seen.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("0", "a"), ("1", "b"), ("-1", "c")]);
    }

    #[test]
    fn any_value_is_skipped_and_any_damage_is_found() {
        let text = r#"{"a":[1,-2,{"b":null}],"c":true,"d":{},"e":[]}"#;
        assert_eq!(Scan::new(text.as_bytes()).skip(), Ok(()));
        for end in 0..text.len() {
            let cut = &text.as_bytes()[..end];
            assert!(Scan::new(cut).skip().is_err(), "{end}");
        }
        assert!(Scan::new("[".repeat(100).as_bytes()).skip().is_err());
        assert!(Scan::new(b"{a:1}").skip().is_err(), "names must be quoted");
    }
}
