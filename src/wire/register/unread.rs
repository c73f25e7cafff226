//! The part of a body that changes with every registration and means nothing.

use std::ops::Range;

use crate::wire::json::{Kind, Lexer};

/// The part stands near the front, behind the filter servers and the version.
const SEARCHED_BYTES: usize = 4096;

/// Where a body has the value of `mappingDataVersion`; empty when it has none, or an odd one.
///
/// A NameServer does not read that value, but brokers from 5.0 on stamp it with the time of each
/// registration, so that their bodies (and `bodyCrc32`) are never equal twice. Two bodies that are
/// equal but for this part decode alike, since no `$ref` may lead into it. Bounded work: a few
/// hundred nanoseconds for a Java broker's body.
pub fn unread_part(body: &[u8]) -> Range<usize> {
    find(&body[..body.len().min(SEARCHED_BYTES)]).unwrap_or(0..0)
}

fn find(text: &[u8]) -> Option<Range<usize>> {
    let mut lexer = Lexer::new(text);
    enter(&mut lexer, "topicConfigSerializeWrapper")?;
    enter(&mut lexer, "mappingDataVersion")?;
    let start = lexer.position();
    expect(&mut lexer, Kind::ObjectStart)?;
    loop {
        match lexer.kind().ok()? {
            Kind::Key => {
                let key = lexer.text();
                let is_known = ["counter", "stateVersion", "timestamp"]
                    .iter()
                    .any(|k| key.is(k));
                is_known.then_some(())?;
                expect(&mut lexer, Kind::Number)?;
            }
            Kind::ObjectEnd => return Some(start..lexer.position()),
            _ => return None,
        }
    }
}

/// Reads up to the value of `key` in the object that comes next.
fn enter(lexer: &mut Lexer<'_>, key: &str) -> Option<()> {
    expect(lexer, Kind::ObjectStart)?;
    let depth = lexer.depth();
    loop {
        match lexer.kind().ok()? {
            Kind::Key if lexer.depth() == depth && lexer.text().is(key) => return Some(()),
            Kind::Pause | Kind::End => return None,
            _ if lexer.depth() < depth => return None,
            _ => {}
        }
    }
}

fn expect(lexer: &mut Lexer<'_>, kind: Kind) -> Option<()> {
    (lexer.kind().ok()? == kind).then_some(())
}
