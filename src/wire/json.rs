//! JSON as fastjson 1.x reads it: one lenient pull [`Lexer`], a small tree and its coercions.
//!
//! Owns what counts as JSON in headers, bodies and the KV file. Beyond the standard it takes
//! single quotes, bare names and numbers as keys, comments, leading, doubled and trailing
//! commas, a byte order mark, control characters between tokens, and fastjson's escapes and
//! number suffixes. It refuses a key `@type` anywhere, and nesting beyond [`MAX_DEPTH`].
//! `{"$ref":"$.path"}` is an object like any other; who wants it resolved does it.
//!
//! Invariant: work and memory are bounded by the document's bytes (every element of the tree
//! costs at least one byte of text); reading does not recurse, and what walks a tree goes no
//! deeper than [`MAX_DEPTH`]. Deliberately absent: a writer for answers, typed decoding by
//! traits, and fastjson's `new`, `Set` and `x'00'` forms, which no peer sends.

mod coerce;
mod lexer;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::Cow;

use thiserror::Error;

pub use coerce::{boolean, int32, int64, text};
pub use lexer::{Key, KeyForm, Kind, Lexer, MAX_DEPTH, Token};
pub use text::{Text, leading_integer, plain_string};

/// Why a text is not JSON, or a value not what is wanted of it. Offsets are bytes from the start
/// of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum JsonError {
    /// The text ends inside a value.
    #[error("JSON ends early")]
    Early,
    /// A character that cannot stand there.
    #[error("unexpected character at byte {0}")]
    Unexpected(usize),
    /// Bytes that are not UTF-8.
    #[error("not UTF-8 at byte {0}")]
    Utf8(usize),
    /// An escape that fastjson does not know.
    #[error("bad escape at byte {0}")]
    Escape(usize),
    /// A number without digits, or a number or bare name that is absurdly long.
    #[error("bad number or name at byte {0}")]
    Word(usize),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("nested too deeply at byte {0}")]
    Depth(usize),
    /// A key `@type`, which would choose a Java class.
    #[error("@type at byte {0} is not supported")]
    TypeKey(usize),
    /// Something follows the value.
    #[error("trailing text at byte {0}")]
    Trailing(usize),
    /// A value of the wrong kind, or outside the range, for the place where it stands.
    #[error("{0} expected")]
    Value(&'static str),
}

/// A parsed value. Numbers keep the text they were written in.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// `null`, `undefined` or `NaN`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as written, with its suffix if it has one, but without a leading `+`.
    Number(&'a str),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// The elements in their order.
    Array(Vec<Self>),
    /// The members in their order, repeated keys included; the last of equal keys counts.
    Object(Vec<Member<'a>>),
}

/// One key and value of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Member<'a> {
    /// The key, unescaped; a number as it was written.
    pub key: Cow<'a, str>,
    /// How the key was written: Java refuses bare numbers as keys of a header's `extFields`.
    pub form: KeyForm,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Value<'a> {
    /// The value of a bean's field `name`: the last member whose key fits by [`same_name`].
    pub fn field(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        members
            .iter()
            .rev()
            .find(|member| same_name(&member.key, name))
            .map(|m| &m.value)
    }

    /// The value of a map's key: the last member with exactly this key.
    pub fn entry(&self, key: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        members
            .iter()
            .rev()
            .find(|member| member.key == key)
            .map(|m| &m.value)
    }
}

/// Parses one whole document of a size that need not be paced; a large body is read token by
/// token instead. Fails on anything but blanks and comments behind the value.
pub fn parse(text: &str) -> Result<Value<'_>, JsonError> {
    enum Open<'a> {
        Array(Vec<Value<'a>>),
        Object(Vec<Member<'a>>),
    }
    let mut lexer = Lexer::new(text.as_bytes());
    let mut open = Vec::new();
    let mut keys: Vec<Key<'_>> = Vec::new();
    let mut root = None;
    loop {
        let value = match lexer.token()? {
            Token::Pause => continue,
            Token::End => return root.ok_or(JsonError::Early),
            Token::Key(key) => {
                keys.push(key);
                continue;
            }
            Token::ObjectStart => {
                open.push(Open::Object(Vec::new()));
                continue;
            }
            Token::ArrayStart => {
                open.push(Open::Array(Vec::new()));
                continue;
            }
            Token::ObjectEnd | Token::ArrayEnd => match open.pop() {
                Some(Open::Object(members)) => Value::Object(members),
                Some(Open::Array(elements)) => Value::Array(elements),
                None => return Err(JsonError::Early),
            },
            Token::Null => Value::Null,
            Token::Bool(value) => Value::Bool(value),
            Token::Number(text) => Value::Number(text),
            Token::String(text) => Value::String(text.decode()),
        };
        match open.last_mut() {
            Some(Open::Array(elements)) => elements.push(value),
            Some(Open::Object(members)) => {
                let key = keys.pop().ok_or(JsonError::Early)?;
                members.push(Member {
                    key: key.text.decode(),
                    form: key.form,
                    value,
                });
            }
            None => root = Some(value),
        }
    }
}

/// Whether a document's key means the bean field `name`: equal, or equal when case, `_` and `-`
/// are ignored (fastjson's smart match). Keys of maps are compared exactly instead.
pub fn same_name(key: &str, name: &str) -> bool {
    fn folded(text: &str) -> impl Iterator<Item = u8> {
        text.bytes()
            .filter(|b| !matches!(b, b'_' | b'-'))
            .map(|b| b.to_ascii_lowercase())
    }
    key == name || folded(key).eq(folded(name))
}
