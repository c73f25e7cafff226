//! JSON: the lexer's tokens are balanced and cost bounded work, what serde_json reads is read to
//! the same value, and a value that is written reads as itself.
//!
//! All bytes are the document.

use std::collections::BTreeMap;

use namesrv::wire::fastjson::write_string;
use namesrv::wire::json::{self, JsonError, Kind, Lexer, MAX_DEPTH, Member, Value};

/// [`json::parse`], or what a self-test puts in its place.
pub(crate) type Parse = for<'a> fn(&'a str) -> Result<Value<'a>, JsonError>;

/// What the lexer may read in one call: a run, and a word that begins at its end.
const CALL_BYTES: usize = 20 * 1024;
/// Longest number that fastjson's rules are held to here.
const WORD_BYTES: usize = 1024;

pub(crate) fn laws(data: &[u8]) {
    laws_of(json::parse, data);
}

pub(crate) fn laws_of(parse: Parse, data: &[u8]) {
    let lexed = tokens(data);
    let Ok(text) = std::str::from_utf8(data) else {
        assert!(lexed.is_err(), "took bytes that are not UTF-8");
        return;
    };
    let parsed = parse(text);
    assert_eq!(
        parsed.as_ref().err(),
        lexed.as_ref().err(),
        "tree and tokens"
    );
    let reference = serde_json::from_str::<serde_json::Value>(text).ok();
    let Ok(value) = parsed else {
        let refused = reference.filter(|reference| !refused_on_purpose(text, reference));
        assert_eq!(refused, None, "serde_json reads it");
        return;
    };
    if let Some(reference) = reference {
        assert!(same(&value, &reference), "{value:?} and {reference:?}");
    }
    let mut written = Vec::new();
    write(&mut written, &value);
    let written = String::from_utf8(written).expect("written as UTF-8");
    let mut expected = value;
    forget_forms(&mut expected);
    let mut again = parse(&written).expect("what was written");
    forget_forms(&mut again);
    assert_eq!(again, expected);
    coercions(&expected);
}

/// Walks through the document; the number of tokens.
fn tokens(data: &[u8]) -> Result<usize, JsonError> {
    let mut lexer = Lexer::new(data);
    let (mut open, mut wants_value, mut count, mut pauses) = (Vec::new(), false, 0, 0);
    loop {
        let before = lexer.position();
        let kind = lexer.kind()?;
        let position = lexer.position();
        assert!((before..=data.len()).contains(&position));
        assert!(
            position - before <= CALL_BYTES,
            "one call read {}",
            position - before
        );
        match kind {
            Kind::ObjectStart | Kind::ArrayStart => open.push(kind),
            Kind::ObjectEnd => assert_eq!(open.pop(), Some(Kind::ObjectStart)),
            Kind::ArrayEnd => assert_eq!(open.pop(), Some(Kind::ArrayStart)),
            Kind::Key => assert_eq!(open.last(), Some(&Kind::ObjectStart)),
            Kind::Pause => {
                pauses += 1;
                continue;
            }
            Kind::End => {
                assert!(open.is_empty() && count > 0 && position == data.len());
                return Ok(count);
            }
            _ => {}
        }
        // a member's value follows its key, and nothing else stands in an object
        let closes = matches!(kind, Kind::ObjectEnd | Kind::ArrayEnd);
        assert!(!wants_value || kind != Kind::Key && kind != Kind::ObjectEnd);
        wants_value = kind == Kind::Key;
        assert_eq!(lexer.depth(), open.len());
        assert!(open.len() <= MAX_DEPTH);
        if !closes {
            let text = lexer.text();
            assert!(text.decode().len() <= text.raw_bytes());
        }
        count += 1;
        assert!(
            count <= data.len() && pauses <= data.len() / 1024,
            "more tokens than bytes"
        );
    }
}

/// What the module refuses although it is JSON: `@type`, deep nesting and absurd numbers.
fn refused_on_purpose(text: &str, value: &serde_json::Value) -> bool {
    fn has_type(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Array(elements) => elements.iter().any(has_type),
            serde_json::Value::Object(members) => {
                members.contains_key("@type") || members.values().any(has_type)
            }
            _ => false,
        }
    }
    // repeated keys may hide one from the reference
    has_type(value) || text.contains("@") && text.contains("type") || text.len() > WORD_BYTES
}

fn same(value: &Value<'_>, reference: &serde_json::Value) -> bool {
    match (value, reference) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Number(text), serde_json::Value::Number(number)) => {
            match (text.parse::<i64>(), number.as_i64()) {
                (Ok(a), Some(b)) => a == b,
                _ => match (text.parse::<f64>(), number.as_f64()) {
                    // the reference rounds quickly, not always correctly
                    (Ok(a), Some(b)) => (a - b).abs() <= b.abs() * 1e-15,
                    _ => false,
                },
            }
        }
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(members), serde_json::Value::Object(b)) => {
            let last: BTreeMap<&str, &Value<'_>> =
                members.iter().map(|m| (&*m.key, &m.value)).collect();
            last.len() == b.len()
                && b.iter().all(|(key, b)| {
                    last.get(&**key).is_some_and(|a| same(a, b))
                        && value.entry(key) == last.get(&**key).copied()
                })
        }
        _ => false,
    }
}

fn write(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Number(text) => {
            // only behind a sign may a number begin with its point, and a plus is not kept
            if text.starts_with('.') {
                out.push(b'+');
            }
            out.extend_from_slice(text.as_bytes());
        }
        Value::String(text) => write_string(out, text),
        Value::Array(elements) => {
            out.push(b'[');
            for element in elements {
                write(out, element);
                // the trailing comma is one of the liberties
                out.push(b',');
            }
            out.push(b']');
        }
        Value::Object(members) => {
            out.push(b'{');
            for Member { key, value, .. } in members {
                write_string(out, key);
                out.push(b':');
                write(out, value);
                out.push(b',');
            }
            out.push(b'}');
        }
    }
}

/// All keys become quoted ones.
fn forget_forms(value: &mut Value<'_>) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(forget_forms),
        Value::Object(members) => {
            for member in members {
                member.form = json::KeyForm::Quoted;
                forget_forms(&mut member.value);
            }
        }
        _ => {}
    }
}

/// What a Java field of each type would hold: the same for a number and for its text, and text of
/// a value is text that reads as itself.
fn coercions(value: &Value<'_>) {
    let text = json::text(value.clone());
    if let (Value::Array(_) | Value::Object(_), Ok(Some(text))) = (value, &text) {
        assert!(json::parse(text).is_ok(), "{text}");
    }
    let (int, long) = (json::int32(value), json::int64(value));
    if let (Value::Number(raw), Ok(plain)) = (value, value_as_i64(value)) {
        assert_eq!(long, Ok(Some(plain)), "{raw}");
        assert_eq!(int.ok().flatten(), i32::try_from(plain).ok(), "{raw}");
        let quoted = Value::String((*raw).into());
        assert_eq!(json::int64(&quoted), Ok(Some(plain)), "{raw}");
        assert_eq!(
            json::boolean(value).ok().flatten(),
            i32::try_from(plain).ok().map(|n| n == 1)
        );
    }
    match value {
        Value::Array(elements) => elements.iter().for_each(coercions),
        Value::Object(members) => members.iter().for_each(|member| coercions(&member.value)),
        _ => {}
    }
}

fn value_as_i64(value: &Value<'_>) -> Result<i64, ()> {
    match value {
        Value::Number(raw) => raw.parse().map_err(|_| ()),
        _ => Err(()),
    }
}
