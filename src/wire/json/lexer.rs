//! The pull lexer: one token a call, no recursion, no allocation, a bounded piece of work.
//!
//! It reads bytes and checks UTF-8 as it goes, so that nobody has to walk a large body first.

use super::JsonError;
use super::text::{Text, escape_bytes, find_end};

/// Deepest nesting; Java takes 513 levels inside a header and refuses 1,000.
pub const MAX_DEPTH: usize = 514;

/// Bytes of one string, comment or run of blanks after which a call returns [`Token::Pause`].
const RUN_BYTES: usize = 16 * 1024;

/// Longest number or bare name: no peer writes longer ones, and they are read in one piece.
const WORD_BYTES: usize = 1024;

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a call of [`Lexer::kind`] found. Commas and colons are checked, not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    ObjectStart,
    /// `}`
    ObjectEnd,
    /// `[`
    ArrayStart,
    /// `]`
    ArrayEnd,
    /// A key; its value, or the start of it, is the next token.
    Key,
    /// `null`, `undefined` or `NaN`
    Null,
    /// `true`
    True,
    /// `false`
    False,
    /// A number as written, without a leading `+`.
    Number,
    /// A string value.
    String,
    /// Nothing yet: something long is still being read. The next call goes on with it.
    Pause,
    /// The document is complete and nothing follows it.
    End,
}

/// A token with its text, where a few nanoseconds do not matter; else see [`Kind`].
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
    /// The innermost open container is an object.
    in_object: bool,
    /// One bit for each open container: set for an object.
    objects: [u64; MAX_DEPTH / 64 + 1],
    /// The string whose end is looked for, in [`State::String`].
    string: OpenString,
    comment: Comment,
    /// Text and form of the last key, number or string.
    text: Text<'a>,
    form: KeyForm,
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
    /// Inside a string.
    String,
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
            in_object: false,
            objects: [0; MAX_DEPTH / 64 + 1],
            string: OpenString {
                start: 0,
                quote: b'"',
                escaped: false,
                is_key: false,
            },
            comment: Comment::None,
            text: Text {
                raw: b"",
                escaped: false,
            },
            form: KeyForm::Quoted,
        }
    }

    /// Bytes read so far; behind a container its end, behind anything else maybe a little more.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Number of open containers. A value that is no container leaves it as it was.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Text of the last key, number or string.
    #[inline]
    pub fn text(&self) -> Text<'a> {
        self.text
    }

    /// Between two members of an object, or before the first: the text from the next one on, for
    /// whoever can tell more quickly what stands there; see [`pass_member`](Self::pass_member).
    pub fn next_member(&self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.pos..)?;
        match self.state {
            _ if !self.in_object || self.comment != Comment::None => None,
            State::Item => Some(rest),
            State::After => rest.strip_prefix(b","),
            _ => None,
        }
    }

    /// Goes on with `rest`, which is what follows one correct member, all that was read of
    /// [`next_member`](Self::next_member).
    pub fn pass_member(&mut self, rest: &[u8]) {
        self.pos = self.bytes.len() - rest.len();
        self.state = State::After;
    }

    /// The next token with its text.
    pub fn token(&mut self) -> Result<Token<'a>, JsonError> {
        Ok(match self.kind()? {
            Kind::ObjectStart => Token::ObjectStart,
            Kind::ObjectEnd => Token::ObjectEnd,
            Kind::ArrayStart => Token::ArrayStart,
            Kind::ArrayEnd => Token::ArrayEnd,
            Kind::Key => Token::Key(Key {
                text: self.text,
                form: self.form,
            }),
            Kind::Null => Token::Null,
            Kind::True => Token::Bool(true),
            Kind::False => Token::Bool(false),
            Kind::Number => Token::Number(self.text.as_written()),
            Kind::String => Token::String(self.text),
            Kind::Pause => Token::Pause,
            Kind::End => Token::End,
        })
    }

    /// The next token. After an error the lexer must not be asked again.
    #[inline]
    pub fn kind(&mut self) -> Result<Kind, JsonError> {
        if self.state == State::String {
            return self.string();
        }
        let stop = self.pos + RUN_BYTES;
        loop {
            let byte = match self.significant(stop)? {
                Next::Byte(byte) => byte,
                Next::End if self.state == State::Done => return Ok(Kind::End),
                Next::End => return Err(JsonError::Early),
                Next::Pause => return Ok(Kind::Pause),
            };
            match (self.state, byte) {
                (State::Value, _) => return self.value(byte),
                (State::After | State::Item, b',') => {
                    self.pos += 1;
                    self.state = State::Item;
                }
                (State::After | State::Item, b'}' | b']') => return self.close(byte),
                (State::Item, _) if self.in_object => return self.key(byte),
                (State::Item, _) => return self.value(byte),
                (State::Colon, b':') => {
                    self.pos += 1;
                    self.state = State::Value;
                }
                (State::Done, _) => return Err(JsonError::Trailing(self.pos)),
                _ => return Err(self.unexpected()),
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

    fn value(&mut self, byte: u8) -> Result<Kind, JsonError> {
        let kind = match byte {
            b'"' | b'\'' => return self.start_string(byte, false),
            b'{' | b'[' => return self.open(byte),
            b'0'..=b'9' | b'-' | b'+' => {
                self.number()?;
                Kind::Number
            }
            _ => {
                let start = self.pos;
                self.name()?;
                match self.text.raw {
                    b"true" => Kind::True,
                    b"false" => Kind::False,
                    b"null" | b"undefined" | b"NaN" => Kind::Null,
                    _ => return Err(JsonError::Unexpected(start)),
                }
            }
        };
        self.end_scalar();
        Ok(kind)
    }

    fn key(&mut self, byte: u8) -> Result<Kind, JsonError> {
        let start = self.pos;
        self.form = match byte {
            b'"' | b'\'' => return self.start_string(byte, true),
            b'0'..=b'9' | b'-' => {
                self.number()?;
                KeyForm::Number
            }
            _ => {
                self.name()?;
                KeyForm::Name
            }
        };
        self.end_key(start)
    }

    #[inline]
    fn end_key(&mut self, start: usize) -> Result<Kind, JsonError> {
        if self.text.is("@type") {
            return Err(JsonError::TypeKey(start));
        }
        self.state = State::Colon;
        if self.bytes.get(self.pos) == Some(&b':') {
            self.pos += 1;
            self.state = State::Value;
        }
        Ok(Kind::Key)
    }

    #[inline]
    fn end_scalar(&mut self) {
        self.state = if self.depth == 0 {
            State::Done
        } else {
            State::After
        };
        if self.state == State::After && self.bytes.get(self.pos) == Some(&b',') {
            self.pos += 1;
            self.state = State::Item;
        }
    }

    #[inline]
    fn start_string(&mut self, quote: u8, is_key: bool) -> Result<Kind, JsonError> {
        self.pos += 1;
        self.checked = self.pos;
        self.state = State::String;
        self.string = OpenString {
            start: self.pos,
            quote,
            escaped: false,
            is_key,
        };
        self.string()
    }

    /// Looks for the end of a string from where the last call stopped.
    fn string(&mut self) -> Result<Kind, JsonError> {
        let stop = (self.pos + RUN_BYTES).min(self.bytes.len());
        let OpenString {
            start,
            quote,
            is_key,
            ..
        } = self.string;
        loop {
            let Some(at) = find_end(self.bytes, self.pos, stop, quote) else {
                // an escape may reach a little over the mark
                self.pos = self.pos.max(stop);
                if self.pos == self.bytes.len() {
                    return Err(JsonError::Early);
                }
                self.check_utf8(self.pos, false)?;
                return Ok(Kind::Pause);
            };
            if self.bytes[at] == quote {
                self.check_utf8(at, true)?;
                self.pos = at + 1;
                self.text = Text {
                    raw: &self.bytes[start..at],
                    escaped: self.string.escaped,
                };
                if is_key {
                    self.form = KeyForm::Quoted;
                    return self.end_key(start);
                }
                self.end_scalar();
                return Ok(Kind::String);
            }
            self.string.escaped = true;
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

    fn open(&mut self, byte: u8) -> Result<Kind, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::Depth(self.pos));
        }
        self.in_object = byte == b'{';
        let bit = 1 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if self.in_object {
            *word | bit
        } else {
            *word & !bit
        };
        self.depth += 1;
        self.pos += 1;
        self.state = State::Item;
        Ok(if self.in_object {
            Kind::ObjectStart
        } else {
            Kind::ArrayStart
        })
    }

    /// Only called inside a container.
    fn close(&mut self, byte: u8) -> Result<Kind, JsonError> {
        if self.in_object != (byte == b'}') {
            return Err(self.unexpected());
        }
        let kind = if self.in_object {
            Kind::ObjectEnd
        } else {
            Kind::ArrayEnd
        };
        self.pos += 1;
        self.depth -= 1;
        self.state = State::Done;
        if let Some(outer) = self.depth.checked_sub(1) {
            self.in_object = self.objects[outer / 64] & (1 << (outer % 64)) != 0;
            self.state = State::After;
        }
        Ok(kind)
    }

    /// Sign, digits, fraction, exponent, and the suffix of a Java literal.
    fn number(&mut self) -> Result<(), JsonError> {
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
        self.text = Text {
            raw: &bytes[start..at],
            escaped: false,
        };
        Ok(())
    }

    /// An identifier: `A-Za-z_$` or anything beyond ASCII, then also digits.
    fn name(&mut self) -> Result<(), JsonError> {
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
        self.checked = self.pos;
        self.check_utf8(self.pos + length, true)?;
        self.text = Text {
            raw: &rest[..length],
            escaped: false,
        };
        self.pos += length;
        Ok(())
    }

    #[cold]
    fn unexpected(&self) -> JsonError {
        JsonError::Unexpected(self.pos)
    }
}
