//! Answers of servers against those of oracles.

use std::fmt::Write as _;
use std::time::SystemTime;

use crate::canon::{canonical, without_now};
use crate::dialect::Dialect;
use crate::support::answer::{Answer, Remark, read_answers};
use crate::support::request::Request;
use crate::tables;

/// The oracles' clock: whatever a server says of its own clock is compared with this one.
pub(crate) const START_MS: u64 = 1_000_000_000;
const LAST_MS: i64 = 1_900_000_000;
/// How far a server's clock may be from this one.
const NEAR_MS: i64 = 3_600_000;

/// What an oracle expects: none for a one-way.
pub(crate) type Expected = Option<Answer>;

/// The answer with this opaque.
pub(crate) fn read(
    bytes: &[u8],
    opaque: i32,
    java: bool,
    dialect: Dialect,
) -> Result<Answer, String> {
    let (actual, answer) = read_any(bytes, java, dialect)?;
    if actual != opaque {
        return Err(format!("opaque {actual} instead of {opaque}: {answer}"));
    }
    Ok(answer)
}

/// The one answer of a frame, whose header must be byte for byte that of 5.3.3, and its opaque.
pub(crate) fn read_any(
    bytes: &[u8],
    java: bool,
    dialect: Dialect,
) -> Result<(i32, Answer), String> {
    let translated = if java {
        dialect.translate(bytes)?
    } else {
        bytes.to_vec()
    };
    let mut answers = read_answers(&translated)?;
    match answers.pop() {
        Some(answer) if answers.is_empty() => Ok(answer),
        _ => Err("not one frame".to_owned()),
    }
}

/// Compares what came with what the oracle says: ours byte for byte, Java's without hash order.
pub(crate) fn check(
    name: &str,
    req: &Request,
    expected: &Answer,
    actual: &Answer,
    dialect: Dialect,
) -> Result<(), String> {
    let wall = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64);
    let mut shown = actual.clone();
    shown.body = actual.body.as_ref().map(|body| {
        let body = without_now(body, |time| (wall - time).abs() < NEAR_MS);
        if name == "Java" {
            dialect.canonical(req.code, &body)
        } else {
            body
        }
    });
    let mut wanted = if name == "Java" {
        dialect.says(expected.clone())
    } else {
        expected.clone()
    };
    wanted.body = wanted.body.map(|body| {
        let body = without_now(&body, is_oracle_time);
        if name == "Java" {
            dialect.canonical(req.code, &body)
        } else {
            body
        }
    });
    if wanted.admits(&shown) && (wanted.remark != Remark::Any || shown.ext.is_none()) {
        return Ok(());
    }
    let mut text = format!("{name} answers {}", tables::show(req));
    let _ = write!(text, "\n  expected {wanted}\n  answered {shown}");
    Err(text)
}

/// Whether both servers are expected to say the same.
pub(crate) fn same(java: &Expected, ours: &Expected, code: i32) -> bool {
    let settle = |answer: &Expected| answer.clone().map(|answer| settled(code, answer));
    settle(java) == settle(ours)
}

/// An oracle's answer in canonical order.
pub(crate) fn settled(code: i32, mut answer: Answer) -> Answer {
    answer.body = answer.body.map(|body| canonical(code, &body).into_owned());
    answer
}

fn is_oracle_time(time: i64) -> bool {
    (START_MS as i64..LAST_MS).contains(&time)
}
