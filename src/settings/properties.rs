//! Java's `.properties` text: a reader with Java's rules, and a writer that keeps the operator's
//! comments, order and spelling.
//!
//! Owns the syntax and nothing of the meaning of a key. Invariant: for every readable text,
//! `read(update(text, changes))` is `read(text)` with the changes in it, whatever the keys and
//! values hold; so no value can add a second key. Java writes such files without escapes and
//! without the comments, which is what this module exists to do better. Deliberately absent: the
//! `!include`-like and `${}` extensions of other readers, which Java's has not either.
//!
//! Bytes are ISO-8859-1, as in `java.util.Properties.load(InputStream)`. Everything that is
//! written is ASCII.

#[cfg(test)]
mod tests;

use thiserror::Error;

/// One key of a text with its value, both without escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key; may be empty.
    pub key: String,
    /// The value with its trailing blanks, which Java keeps.
    pub value: String,
    /// Line on which the entry begins, from 1.
    pub line: usize,
}

/// A `\u` without four hexadecimal digits: Java refuses the whole text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("line {line}: \\u needs four hexadecimal digits")]
pub struct BadEscape {
    /// Line on which the entry begins, from 1.
    pub line: usize,
}

/// Reads a text. Entries come in the order of the text, duplicates included: for equal keys the
/// last counts. All bad escapes are reported at once.
pub fn read(text: &[u8]) -> Result<Vec<Entry>, Vec<BadEscape>> {
    let mut entries = Vec::new();
    let mut bad = Vec::new();
    let mut scanner = Scanner::new(text);
    while let Some(line) = scanner.next_logical() {
        let parts = split(&line.bytes);
        let key = unescape(&line.bytes[..parts.key_end]);
        let value = unescape(&line.bytes[parts.value_start..]);
        match (key, value) {
            (Some(key), Some(value)) => entries.push(Entry {
                key,
                value,
                line: line.number,
            }),
            _ => bad.push(BadEscape { line: line.number }),
        }
    }
    if bad.is_empty() {
        Ok(entries)
    } else {
        Err(bad)
    }
}

/// `text` with each `(key, value)` of `changes` in it: the last entry of a known key is changed in
/// its place, an unknown key is appended. Nothing else moves. Keys of `changes` are without
/// escapes; a key named twice takes its last value.
pub fn update(text: &[u8], changes: &[(String, String)]) -> Result<Vec<u8>, Vec<BadEscape>> {
    read(text)?;
    let mut edits: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    let mut appended = Vec::new();
    for (index, (key, value)) in changes.iter().enumerate() {
        if changes[index + 1..].iter().any(|(later, _)| later == key) {
            continue;
        }
        match last_entry(text, key) {
            Some(line) => edits.push(line.with_value(text, key, value)),
            None => append_entry(&mut appended, key, value),
        }
    }
    edits.sort_unstable_by_key(|edit| edit.0);
    let mut out = Vec::with_capacity(text.len() + appended.len() + 64);
    let mut copied = 0;
    for (start, end, replacement) in edits {
        out.extend_from_slice(&text[copied..start]);
        out.extend_from_slice(&replacement);
        copied = end;
    }
    out.extend_from_slice(&text[copied..]);
    if !appended.is_empty() {
        close_last_line(&mut out);
        out.extend_from_slice(&appended);
    }
    Ok(out)
}

/// The last entry of `key`, the one that counts.
fn last_entry(text: &[u8], key: &str) -> Option<Logical> {
    let mut found = None;
    let mut scanner = Scanner::new(text);
    while let Some(line) = scanner.next_logical() {
        let key_end = split(&line.bytes).key_end;
        if unescape(&line.bytes[..key_end]).is_some_and(|k| k == key) {
            found = Some(line);
        }
    }
    found
}

/// Ends the last line of `out`, so that what is appended begins a line of its own.
fn close_last_line(out: &mut Vec<u8>) {
    let mut scanner = Scanner::new(out);
    while scanner.next_logical().is_some() {}
    if scanner.open {
        // The first terminator ends (or completes, after a lone CR) the continued line, the
        // second is the empty line that the continuation takes.
        out.extend_from_slice(b"\n\n");
    } else if out.last().is_some_and(|b| !is_end(*b)) {
        out.push(b'\n');
    }
}

fn append_entry(out: &mut Vec<u8>, key: &str, value: &str) {
    escape_key(out, key);
    out.push(b'=');
    escape_value(out, value);
    out.push(b'\n');
}

/// A line after joining its continuations, still with escapes.
struct Logical {
    bytes: Vec<u8>,
    /// Offset in the text of each byte of `bytes`.
    at: Vec<usize>,
    /// Offset of the first byte, behind the leading blanks.
    start: usize,
    /// Offset behind the last byte, before the terminator.
    end: usize,
    number: usize,
}

impl Logical {
    /// The edit that gives this entry another value: range of the text and what takes its place.
    /// Key and separator keep their spelling when they stand on one line.
    fn with_value(&self, text: &[u8], key: &str, value: &str) -> (usize, usize, Vec<u8>) {
        let parts = split(&self.bytes);
        let mut out = Vec::new();
        let head = match parts.value_start.checked_sub(1) {
            Some(last) if parts.value_start > parts.key_end => &text[self.start..=self.at[last]],
            _ => &[][..],
        };
        if head.is_empty() || head.iter().any(|b| is_end(*b)) {
            escape_key(&mut out, key);
            out.push(b'=');
        } else {
            out.extend_from_slice(head);
        }
        escape_value(&mut out, value);
        (self.start, self.end, out)
    }
}

/// Cuts a text into logical lines as `Properties.LineReader` does.
struct Scanner<'a> {
    text: &'a [u8],
    pos: usize,
    line: usize,
    /// The text ended inside a line that a backslash continues.
    open: bool,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            pos: 0,
            line: 1,
            open: false,
        }
    }

    /// The next line that is neither blank nor a comment.
    fn next_logical(&mut self) -> Option<Logical> {
        loop {
            match *self.text.get(self.pos)? {
                b if is_blank(b) => self.pos += 1,
                b if is_end(b) => self.skip_end(),
                b'#' | b'!' => {
                    while self.text.get(self.pos).is_some_and(|b| !is_end(*b)) {
                        self.pos += 1;
                    }
                }
                _ => {
                    if let Some(line) = self.logical() {
                        return Some(line);
                    }
                }
            }
        }
    }

    /// Reads one logical line; `None` when a lone backslash continued into nothing.
    fn logical(&mut self) -> Option<Logical> {
        let (start, number) = (self.pos, self.line);
        let mut line = Logical {
            bytes: Vec::new(),
            at: Vec::new(),
            start,
            end: start,
            number,
        };
        let mut escaped = false;
        while let Some(&byte) = self.text.get(self.pos) {
            if !is_end(byte) {
                line.bytes.push(byte);
                line.at.push(self.pos);
                escaped = byte == b'\\' && !escaped;
                self.pos += 1;
                self.open = false;
                continue;
            }
            if !escaped {
                line.end = self.pos;
                self.open = false;
                return (!line.bytes.is_empty()).then_some(line);
            }
            line.drop_last();
            escaped = false;
            self.open = true;
            self.skip_end();
            if line.bytes.is_empty() {
                // Nothing is continued: the next line may be a comment, as since Java 9.
                return None;
            }
            while self.text.get(self.pos).is_some_and(|b| is_blank(*b)) {
                self.pos += 1;
            }
        }
        line.end = self.pos;
        if escaped {
            line.drop_last();
            self.open = true;
        }
        // A lone backslash that ends the text is an empty key to Java; here it is nothing, so
        // that appending a line takes no key away.
        (!line.bytes.is_empty()).then_some(line)
    }

    /// Steps over CR, LF or CR LF.
    fn skip_end(&mut self) {
        let crlf = self.text[self.pos..].starts_with(b"\r\n");
        self.pos += if crlf { 2 } else { 1 };
        self.line += 1;
    }
}

impl Logical {
    /// Takes back the backslash that continued the line.
    fn drop_last(&mut self) {
        self.bytes.pop();
        self.at.pop();
    }
}

struct Parts {
    key_end: usize,
    value_start: usize,
}

/// Finds key and value: the key ends at the first `=`, `:` or blank that is not escaped, and one
/// `=` or `:` may stand among the blanks that follow.
fn split(line: &[u8]) -> Parts {
    let mut escaped = false;
    let mut key_end = 0;
    while let Some(&byte) = line.get(key_end) {
        if !escaped && (is_blank(byte) || is_separator(byte)) {
            break;
        }
        escaped = byte == b'\\' && !escaped;
        key_end += 1;
    }
    let mut value_start = key_end;
    let mut separated = false;
    while let Some(&byte) = line.get(value_start) {
        if is_separator(byte) && !separated {
            separated = true;
        } else if !is_blank(byte) {
            break;
        }
        value_start += 1;
    }
    Parts {
        key_end,
        value_start,
    }
}

/// The text of an escaped slice; `None` for a bad `\u`. Half of a surrogate pair becomes `?`, as
/// when Java encodes it.
fn unescape(bytes: &[u8]) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        if byte != b'\\' {
            units.push(u16::from(byte));
            continue;
        }
        match rest.next() {
            Some(b't') => units.push(0x09),
            Some(b'n') => units.push(0x0a),
            Some(b'f') => units.push(0x0c),
            Some(b'r') => units.push(0x0d),
            Some(b'u') => {
                let (digits, behind) = rest.as_slice().split_at_checked(4)?;
                units.push(hex4(digits)?);
                rest = behind.iter();
            }
            Some(&other) => units.push(u16::from(other)),
            None => {}
        }
    }
    Some(
        char::decode_utf16(units)
            .map(|c| c.unwrap_or('?'))
            .collect(),
    )
}

fn hex4(digits: &[u8]) -> Option<u16> {
    let mut unit = 0;
    for digit in digits {
        unit = unit << 4 | char::from(*digit).to_digit(16)?;
    }
    u16::try_from(unit).ok()
}

fn escape_key(out: &mut Vec<u8>, key: &str) {
    for (index, c) in key.chars().enumerate() {
        match c {
            ' ' | '=' | ':' => out.extend_from_slice(&[b'\\', c as u8]),
            '#' | '!' if index == 0 => out.extend_from_slice(&[b'\\', c as u8]),
            _ => escape_char(out, c),
        }
    }
}

fn escape_value(out: &mut Vec<u8>, value: &str) {
    for (index, c) in value.chars().enumerate() {
        match c {
            ' ' | '=' | ':' if index == 0 => out.extend_from_slice(&[b'\\', c as u8]),
            _ => escape_char(out, c),
        }
    }
}

/// What key and value have in common.
fn escape_char(out: &mut Vec<u8>, c: char) {
    match c {
        '\\' => out.extend_from_slice(b"\\\\"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\x0c' => out.extend_from_slice(b"\\f"),
        ' '..='~' => out.push(c as u8),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.extend_from_slice(format!("\\u{unit:04X}").as_bytes());
            }
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\r' | b'\n')
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'=' | b':')
}
