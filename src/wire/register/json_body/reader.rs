//! Tokens, objects and single values of one document, paced and within the limits.

use std::borrow::Cow;
use std::cell::Cell;

use super::{BodyError, Source};
use crate::wire::json::{self, JsonError, Kind, Lexer, Text, Value};

/// Bytes of text after which the work is reported.
const STEP_BYTES: usize = 512;

/// Bytes that are compared in the time in which one is lexed.
const COMPARED_PER_UNIT: usize = 8;

/// Longest key that is compared leniently with the names of fields.
const FIELD_BYTES: usize = 128;

/// Reads one document.
pub(super) struct Reader<'a, 's> {
    pub(super) text: &'a [u8],
    pub(super) lexer: Lexer<'a>,
    /// Up to here the work was reported.
    paced: usize,
    pub(super) source: &'s Source<'s>,
    pub(super) references: Cell<usize>,
}

impl<'a, 's> Reader<'a, 's> {
    pub(super) fn new(text: &'a [u8], source: &'s Source<'s>) -> Self {
        Self {
            text,
            lexer: Lexer::new(text),
            paced: 0,
            source,
            references: Cell::new(0),
        }
    }

    /// The next token, after a rest if enough was done.
    pub(super) async fn token(&mut self) -> Result<Kind, BodyError> {
        loop {
            let kind = self.lexer.kind()?;
            let read = self.lexer.position() - self.paced;
            if read >= STEP_BYTES {
                self.paced += read;
                self.source.pace.step(read).await;
            }
            if kind != Kind::Pause {
                return Ok(kind);
            }
        }
    }

    /// Goes on behind a member that was compared as a whole; see [`Lexer::pass_member`].
    pub(super) async fn pass_member(&mut self, rest: &[u8]) {
        let from = self.lexer.position();
        self.lexer.pass_member(rest);
        let compared = self.lexer.position() - from;
        self.paced += compared;
        self.source.pace.step(compared / COMPARED_PER_UNIT).await;
    }

    /// Enters the object that must stand here; false for `null`, and for `""`, which fastjson
    /// takes for it.
    pub(super) async fn begin_object(&mut self, what: &'static str) -> Result<bool, BodyError> {
        match self.token().await? {
            Kind::ObjectStart => Ok(true),
            Kind::Null => Ok(false),
            Kind::String if self.lexer.text().is("") => Ok(false),
            _ => Err(JsonError::Value(what).into()),
        }
    }

    /// The next key of the object that was entered; `None` at its end.
    pub(super) async fn key(&mut self) -> Result<Option<Text<'a>>, BodyError> {
        Ok((self.token().await? == Kind::Key).then(|| self.lexer.text()))
    }

    /// Passes over one value of any kind.
    pub(super) async fn skip(&mut self) -> Result<(), BodyError> {
        let depth = self.lexer.depth();
        loop {
            self.token().await?;
            // less at the end of an array, where there was no value
            if self.lexer.depth() <= depth {
                return Ok(());
            }
        }
    }

    /// Passes over an object or null.
    pub(super) async fn skip_object(&mut self) -> Result<(), BodyError> {
        if self.begin_object("object").await? {
            while self.key().await?.is_some() {
                self.skip().await?;
            }
        }
        Ok(())
    }

    pub(super) async fn end(&mut self) -> Result<(), BodyError> {
        match self.token().await? {
            Kind::End => Ok(()),
            _ => Err(JsonError::Trailing(self.lexer.position()).into()),
        }
    }

    pub(super) async fn int32_or(&mut self, default: i32) -> Result<i32, BodyError> {
        let kind = self.token().await?;
        if kind == Kind::Number
            && let Some(number) = self.lexer.text().short_integer()
        {
            return Ok(number);
        }
        Ok(json::int32(&self.scalar_of(kind)?)?.unwrap_or(default))
    }

    pub(super) async fn int64_or(&mut self, default: i64) -> Result<i64, BodyError> {
        Ok(json::int64(&self.scalar().await?)?.unwrap_or(default))
    }

    pub(super) async fn boolean_or(&mut self, default: bool) -> Result<bool, BodyError> {
        match self.token().await? {
            Kind::True => Ok(true),
            Kind::False => Ok(false),
            kind => Ok(json::boolean(&self.scalar_of(kind)?)?.unwrap_or(default)),
        }
    }

    pub(super) async fn optional_name(&mut self) -> Result<Option<String>, BodyError> {
        match self.token().await? {
            Kind::String => self.name(self.lexer.text()).map(Some),
            kind => {
                let name = json::text(self.scalar_of(kind)?)?;
                if let Some(name) = &name {
                    self.source.check_name(name)?;
                }
                Ok(name.map(Cow::into_owned))
            }
        }
    }

    pub(super) async fn scalar(&mut self) -> Result<Value<'a>, BodyError> {
        let kind = self.token().await?;
        self.scalar_of(kind)
    }

    pub(super) fn scalar_of(&self, kind: Kind) -> Result<Value<'a>, BodyError> {
        let text = self.lexer.text();
        Ok(match kind {
            Kind::Null => Value::Null,
            Kind::True => Value::Bool(true),
            Kind::False => Value::Bool(false),
            Kind::Number => Value::Number(text.as_written()),
            Kind::String => {
                self.check_text(text)?;
                Value::String(text.decode())
            }
            _ => return Err(JsonError::Value("number or string").into()),
        })
    }

    pub(super) fn name(&self, text: Text<'a>) -> Result<String, BodyError> {
        self.check_text(text)?;
        let name = text.decode();
        self.source.check_name(&name)?;
        Ok(name.into_owned())
    }

    /// Refuses to unescape what can only become too long: an escape shrinks to a sixth at most.
    pub(super) fn check_text(&self, text: Text<'a>) -> Result<(), BodyError> {
        let most = self.source.limits.name_bytes;
        if text.raw_bytes() > most.saturating_mul(6) {
            return Err(BodyError::NameTooLong(most));
        }
        Ok(())
    }
}

/// The index in `names` of the field that a key means. The search begins at `next`, which is then
/// moved behind what was found: Java writes fields in the order in which they are listed here.
pub(super) fn field(key: Text<'_>, names: &[&str], next: &mut usize) -> Option<usize> {
    let found = (*next..names.len())
        .chain(0..*next)
        .find(|&index| key.is(names[index]));
    let found = found.or_else(|| loose_field(key, names))?;
    *next = found + 1;
    Some(found)
}

#[cold]
fn loose_field(key: Text<'_>, names: &[&str]) -> Option<usize> {
    if key.raw_bytes() > FIELD_BYTES {
        return None;
    }
    let key = key.decode();
    names.iter().position(|name| json::same_name(&key, name))
}
