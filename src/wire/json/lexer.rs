//! The pull lexer: one token a call, no recursion, no allocation, a bounded piece of work.
//!
//! It reads bytes and checks UTF-8 as it goes, so that nobody has to walk a large body first.

use memchr::memchr2;

use super::JsonError;
use super::text::{Text, escape_bytes};

/// Deepest nesting; Java takes 513 levels inside a header and refuses 1,000.
pub const MAX_DEPTH: usize = 514;

/// Bytes of one string, comment or run of blanks after which a call returns [`Token::Pause`].
const RUN_BYTES: usize = 16 * 1024;

/// Longest number or bare name: no peer writes longer ones, and they are read in one piece.
const WORD_BYTES: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Strings up to this length are searched byte by byte, which beats the set-up of a vector search.
const SHORT_BYTES: usize = 16;

/// What a call of [`Lexer::token`] found. Commas and colons are checked, not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// A key; its value, or the start of it, is the next token.
    Key(Key<'a>),
    /// `null`, `undefined` or `NaN`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as written, without a leading `+`.
    Number(&'a str),
    /// A string value.
    String(Text<'a>),
    /// Nothing yet: something long is still being read. The next call goes on with it.
    Pause,
    /// The document is complete and nothing follows it.
    End,
}

/// The key of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// What stands between the quotes, or the bare word.
    pub text: Text<'a>,
    /// How it was written.
    pub form: KeyForm,
}

/// How a key was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// In single or double quotes.
    Quoted,
    /// A bare identifier.
    Name,
    /// A bare number, as Java writes the keys of a `Map<Integer, …>`.
    Number,
}

/// Reads one document from front to back.
#[derive(Clone, Debug)]
pub struct Lexer<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// Inside a long string or comment: up to here the bytes are known to be UTF-8.
    checked: usize,
    state: State,
    depth: usize,
    /// One bit for each open container: set for an object.
    objects: [u64; MAX_DEPTH / 64 + 1],
    /// A string whose end is not found yet.
    string: Option<OpenString>,
    comment: Comment,
}

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value: at the start, and behind a colon.
    Value,
    /// In a container: an item, more commas, or its end.
    Item,
    /// In a container, behind an item: a comma or its end.
    After,
    /// Behind a key.
    Colon,
    /// Behind the document.
    Done,
}

#[derive(Clone, Copy, Debug)]
struct OpenString {
    start: usize,
    quote: u8,
    escaped: bool,
    is_key: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comment {
    None,
    Line,
    Block,
}

enum Next {
    Byte(u8),
    End,
    Pause,
}

impl<'a> Lexer<'a> {
    /// A lexer before the first token; a byte order mark is skipped.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            pos: if bytes.starts_with(BYTE_ORDER_MARK) {
                BYTE_ORDER_MARK.len()
            } else {
                0
            },
            checked: 0,
            state: State::Value,
            depth: 0,
            objects: [0; MAX_DEPTH / 64 + 1],
            string: None,
            comment: Comment::None,
        }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Number of open containers. A value that is no container leaves it as it was.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The next token. After an error the lexer must not be asked again.
    #[inline]
    pub fn token(&mut self) -> Result<Token<'a>, JsonError> {
        if let Some(open) = self.string {
            return self.string(open);
        }
        let stop = self.pos + RUN_BYTES;
        loop {
            let byte = match self.significant(stop)? {
                Next::Byte(byte) => byte,
                Next::End if self.state == State::Done => return Ok(Token::End),
                Next::End => return Err(JsonError::Early),
                Next::Pause => return Ok(Token::Pause),
            };
            match (self.state, byte) {
                (State::Value, _) => return self.value(byte),
                (State::After | State::Item, b',') => {
                    self.pos += 1;
                    self.state = State::Item;
                }
                (State::After | State::Item, b'}' | b']') => return self.close(byte),
                (State::Item, _) if self.in_object() => return self.key(byte),
                (State::Item, _) => return self.value(byte),
                (State::Colon, b':') => {
                    self.pos += 1;
                    self.state = State::Value;
                }
                (State::After | State::Colon, _) => return Err(self.unexpected()),
                (State::Done, _) => return Err(JsonError::Trailing(self.pos)),
            }
        }
    }

    /// Skips blanks and comments up to `stop` and looks at the byte behind them.
    #[inline]
    fn significant(&mut self, stop: usize) -> Result<Next, JsonError> {
        if self.comment == Comment::None
            && let Some(&byte) = self.bytes.get(self.pos)
            && byte > b' '
            && byte != b'/'
            && byte != 0x7F
            && self.pos < stop
        {
            return Ok(Next::Byte(byte));
        }
        self.skip_blanks(stop)
    }

    /// Everything that fastjson's tokenizer passes over: control characters, space, comments.
    #[cold]
    fn skip_blanks(&mut self, stop: usize) -> Result<Next, JsonError> {
        while let Some(&byte) = self.bytes.get(self.pos) {
            if self.pos >= stop {
                if self.comment != Comment::None {
                    self.check_utf8(self.pos, false)?;
                }
                return Ok(Next::Pause);
            }
            let next = self.bytes.get(self.pos + 1);
            match (self.comment, byte) {
                (Comment::Line, b'\n') => {
                    self.check_utf8(self.pos, true)?;
                    self.comment = Comment::None;
                }
                (Comment::Block, b'*') if next == Some(&b'/') => {
                    self.check_utf8(self.pos, true)?;
                    self.pos += 1;
                    self.comment = Comment::None;
                }
                (Comment::Line | Comment::Block, _) | (Comment::None, 0..=b' ' | 0x7F) => {}
                (Comment::None, b'/') => {
                    self.comment = match next {
                        Some(b'/') => Comment::Line,
                        Some(b'*') => Comment::Block,
                        _ => return Err(self.unexpected()),
                    };
                    self.pos += 1;
                    self.checked = self.pos + 1;
                }
                (Comment::None, _) => return Ok(Next::Byte(byte)),
            }
            self.pos += 1;
        }
        match self.comment {
            Comment::None => {}
            Comment::Line => self.check_utf8(self.pos, true)?,
            Comment::Block => return Err(JsonError::Early),
        }
        Ok(Next::End)
    }

    fn value(&mut self, byte: u8) -> Result<Token<'a>, JsonError> {
        match byte {
            b'"' | b'\'' => self.start_string(byte, false),
            b'{' | b'[' => self.open(byte),
            b'0'..=b'9' | b'-' | b'+' => {
                let number = self.number()?;
                self.end_value();
                Ok(Token::Number(number))
            }
            _ => {
                let start = self.pos;
                let token = match self.name()? {
                    "true" => Token::Bool(true),
                    "false" => Token::Bool(false),
                    "null" | "undefined" | "NaN" => Token::Null,
                    _ => return Err(JsonError::Unexpected(start)),
                };
                self.end_value();
                Ok(token)
            }
        }
    }

    fn key(&mut self, byte: u8) -> Result<Token<'a>, JsonError> {
        let start = self.pos;
        let (word, form) = match byte {
            b'"' | b'\'' => return self.start_string(byte, true),
            b'0'..=b'9' | b'-' => (self.number()?, KeyForm::Number),
            _ => (self.name()?, KeyForm::Name),
        };
        let text = Text {
            raw: word.as_bytes(),
            escaped: false,
        };
        self.end_key(start, Key { text, form })
    }

    fn end_key(&mut self, start: usize, key: Key<'a>) -> Result<Token<'a>, JsonError> {
        if key.text.is("@type") {
            return Err(JsonError::TypeKey(start));
        }
        self.state = State::Colon;
        if self.bytes.get(self.pos) == Some(&b':') {
            self.pos += 1;
            self.state = State::Value;
        }
        Ok(Token::Key(key))
    }

    fn end_value(&mut self) {
        self.state = if self.depth == 0 {
            State::Done
        } else {
            State::After
        };
    }

    fn start_string(&mut self, quote: u8, is_key: bool) -> Result<Token<'a>, JsonError> {
        self.pos += 1;
        self.checked = self.pos;
        self.string(OpenString {
            start: self.pos,
            quote,
            escaped: false,
            is_key,
        })
    }

    /// Looks for the end of a string from where the last call stopped.
    fn string(&mut self, mut open: OpenString) -> Result<Token<'a>, JsonError> {
        let stop = (self.pos + RUN_BYTES).min(self.bytes.len());
        loop {
            let Some(at) = find_end(self.bytes, self.pos, stop, open.quote) else {
                // an escape may reach a little over the mark
                self.pos = self.pos.max(stop);
                if self.pos == self.bytes.len() {
                    return Err(JsonError::Early);
                }
                self.check_utf8(self.pos, false)?;
                self.string = Some(open);
                return Ok(Token::Pause);
            };
            if self.bytes[at] == open.quote {
                self.check_utf8(at, true)?;
                self.pos = at + 1;
                self.string = None;
                let text = Text {
                    raw: &self.bytes[open.start..at],
                    escaped: open.escaped,
                };
                if open.is_key {
                    return self.end_key(
                        open.start,
                        Key {
                            text,
                            form: KeyForm::Quoted,
                        },
                    );
                }
                self.end_value();
                return Ok(Token::String(text));
            }
            open.escaped = true;
            let length = escape_bytes(&self.bytes[at + 1..]).ok_or(JsonError::Escape(at))?;
            self.pos = at + 1 + length;
        }
    }

    /// Checks what lies between the last check and `end`. Unless it is `complete`, the last
    /// character may still be cut and is left for the next check.
    #[inline]
    fn check_utf8(&mut self, end: usize, complete: bool) -> Result<(), JsonError> {
        let piece = &self.bytes[self.checked..end];
        if piece.is_ascii() {
            self.checked = end;
            return Ok(());
        }
        match str::from_utf8(piece) {
            Ok(_) => self.checked = end,
            Err(error) if !complete && error.error_len().is_none() => {
                self.checked += error.valid_up_to();
            }
            Err(error) => return Err(JsonError::Utf8(self.checked + error.valid_up_to())),
        }
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<Token<'a>, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::Depth(self.pos));
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if byte == b'{' {
            *word | bit
        } else {
            *word & !bit
        };
        self.depth += 1;
        self.pos += 1;
        self.state = State::Item;
        Ok(if byte == b'{' {
            Token::ObjectStart
        } else {
            Token::ArrayStart
        })
    }

    fn close(&mut self, byte: u8) -> Result<Token<'a>, JsonError> {
        if self.in_object() != (byte == b'}') {
            return Err(self.unexpected());
        }
        self.depth -= 1;
        self.pos += 1;
        self.end_value();
        Ok(if byte == b'}' {
            Token::ObjectEnd
        } else {
            Token::ArrayEnd
        })
    }

    /// Whether the innermost open container is an object; only asked inside one.
    fn in_object(&self) -> bool {
        let innermost = self.depth - 1;
        self.objects[innermost / 64] & (1 << (innermost % 64)) != 0
    }

    /// Sign, digits, fraction, exponent, and the suffix of a Java literal.
    fn number(&mut self) -> Result<&'a str, JsonError> {
        let bytes = self.bytes;
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let mut start = self.pos;
        let mut at = start;
        match bytes[at] {
            b'-' => at += 1,
            b'+' => {
                start += 1;
                at += 1;
            }
            _ => {}
        }
        let whole = at;
        at = digits(at);
        let mut count = at - whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = at + 1;
            at = digits(fraction);
            count += at - fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = at + 1 + sign;
            at = digits(exponent);
            count = if at == exponent { 0 } else { count };
        } else if matches!(bytes.get(at), Some(b'L' | b'S' | b'B')) {
            at += 1;
        }
        if matches!(bytes.get(at), Some(b'F' | b'D')) && !bytes[at - 1].is_ascii_alphabetic() {
            at += 1;
        }
        if count == 0 || at - start > WORD_BYTES {
            return Err(JsonError::Word(self.pos));
        }
        self.pos = at;
        self.word(start, at)
    }

    /// An identifier: `A-Za-z_$` or anything beyond ASCII, then also digits.
    fn name(&mut self) -> Result<&'a str, JsonError> {
        let rest = &self.bytes[self.pos..];
        let length = rest
            .iter()
            .position(|b| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | 0x80..)))
            .unwrap_or(rest.len());
        if length == 0 {
            return Err(self.unexpected());
        }
        if length > WORD_BYTES {
            return Err(JsonError::Word(self.pos));
        }
        let start = self.pos;
        self.pos += length;
        self.word(start, self.pos)
    }

    fn word(&self, start: usize, end: usize) -> Result<&'a str, JsonError> {
        str::from_utf8(&self.bytes[start..end])
            .map_err(|error| JsonError::Utf8(start + error.valid_up_to()))
    }

    #[cold]
    fn unexpected(&self) -> JsonError {
        JsonError::Unexpected(self.pos)
    }
}

/// The first quote or backslash in `from..stop`.
#[inline]
fn find_end(bytes: &[u8], from: usize, stop: usize, quote: u8) -> Option<usize> {
    let bytes = &bytes[..stop];
    let short = (from + SHORT_BYTES).min(stop);
    for (offset, &byte) in bytes[from.min(short)..short].iter().enumerate() {
        if byte == quote || byte == b'\\' {
            return Some(from + offset);
        }
    }
    memchr2(quote, b'\\', &bytes[short..]).map(|offset| short + offset)
}
