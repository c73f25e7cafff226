//! `{"$ref":"$.path"}`: fastjson's mark for an object that its writer has written before.

use super::{BodyError, Kind, Malformed, REFERENCES, Reader};
use crate::wire::json::JsonError;

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

impl<'a, 's> Reader<'a, 's> {
    /// The path in the `$ref` whose key was just read; its object must end behind it.
    pub(super) async fn reference(&mut self) -> Result<String, BodyError> {
        if self.token().await? != Kind::String {
            return Err(JsonError::Value("$ref").into());
        }
        let path = self.name(self.lexer.text())?;
        if self.key().await?.is_some() {
            return Err(Malformed::Reference.into());
        }
        Ok(path)
    }

    /// A reader of the same text that stands before the value which `path` leads to.
    pub(super) async fn seek(&self, path: &str) -> Result<Self, BodyError> {
        self.references.set(self.references.get() + 1);
        // nothing may depend on what `unread_part` leaves out
        let unread = |segment: &Segment| *segment == Segment::Key("mappingDataVersion".to_owned());
        let path = segments(path).filter(|path| !path.iter().any(unread));
        let path = path.filter(|_| self.references.get() <= REFERENCES);
        let mut reader = Self::new(self.text, self.source);
        for segment in path.ok_or(Malformed::Reference)? {
            let found = match segment {
                Segment::Key(key) => reader.seek_key(&key).await?,
                Segment::Index(index) => reader.seek_index(index).await?,
            };
            if !found {
                return Err(Malformed::Reference.into());
            }
        }
        Ok(reader)
    }

    async fn seek_key(&mut self, key: &str) -> Result<bool, BodyError> {
        if self.token().await? != Kind::ObjectStart {
            return Ok(false);
        }
        while let Some(found) = self.key().await? {
            if found.is(key) {
                return Ok(true);
            }
            self.skip().await?;
        }
        Ok(false)
    }

    /// Elements before the wanted one are passed over; that one must be there and not the end.
    async fn seek_index(&mut self, index: usize) -> Result<bool, BodyError> {
        if self.token().await? != Kind::ArrayStart {
            return Ok(false);
        }
        let depth = self.lexer.depth();
        for _ in 0..index {
            self.skip().await?;
            if self.lexer.depth() < depth {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// `$`, then `.key` with backslashes before what is special, `[index]` or `['key']`.
/// `@` and `..` would lead to an object around this one, which cannot be.
fn segments(path: &str) -> Option<Vec<Segment>> {
    let mut rest = path.strip_prefix('$')?.chars().peekable();
    let mut segments = Vec::new();
    while let Some(start) = rest.next() {
        let mut word = String::new();
        match start {
            '.' => {
                while let Some(char) = rest.next_if(|char| !matches!(char, '.' | '[')) {
                    word.push(if char == '\\' { rest.next()? } else { char });
                }
                segments.push(Segment::Key(word));
            }
            '[' => {
                let quote = rest.next_if(|char| matches!(char, '\'' | '"'));
                loop {
                    match rest.next()? {
                        ']' if quote.is_none() => break,
                        char if Some(char) == quote => {
                            rest.next_if_eq(&']')?;
                            break;
                        }
                        char => word.push(char),
                    }
                }
                segments.push(match quote {
                    Some(_) => Segment::Key(word),
                    None => Segment::Index(word.parse().ok()?),
                });
            }
            _ => return None,
        }
    }
    Some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_keys_and_indices() {
        let key = |text: &str| Segment::Key(text.to_owned());
        for (path, expected) in [
            ("$", Some(vec![])),
            ("$.a.b", Some(vec![key("a"), key("b")])),
            ("$.a\\-b\\.c", Some(vec![key("a-b.c")])),
            ("$.%RETRY%g_1", Some(vec![key("%RETRY%g_1")])),
            (
                "$.a[12].b",
                Some(vec![key("a"), Segment::Index(12), key("b")]),
            ),
            ("$['a.b'][\"c]\"]", Some(vec![key("a.b"), key("c]")])),
            ("@", None),
            ("..", None),
            ("", None),
            ("$a", None),
            ("$[x]", None),
            ("$['a'", None),
            ("$.a\\", None),
        ] {
            assert_eq!(segments(path), expected, "{path}");
        }
    }
}
