//! Bodies of registrations, in all forms: pauses change nothing, limits hold, what no digest
//! covers means nothing, and a body written in any form reads as what it was.
//!
//! The first byte chooses the form, the second the sender's version and the limits, the third the
//! slices; the rest is the body, or the plaintext of a compressed one.

mod print;

use namesrv::wire::pace::{Pace, run_to_end};
use namesrv::wire::register::{
    self, BodyError, BodyLimits, FilterServers, RegisterBody, RegisterInput, unread_part,
};

use super::inflate::deflate;

/// [`register::parse`] in slices of so many units, or what a self-test puts in its place.
pub(crate) type Parse =
    fn(&RegisterInput<'_>, &BodyLimits, slice: usize) -> Result<RegisterBody, BodyError>;

const VERSIONS: [i32; 8] = [479, 413, 412, 317, 37, 36, 0, -1];
const NOW_MS: i64 = 1_700_000_000_000;

pub(crate) fn laws(data: &[u8]) {
    laws_of(parse, data);
}

pub(crate) fn parse(
    input: &RegisterInput<'_>,
    limits: &BodyLimits,
    slice: usize,
) -> Result<RegisterBody, BodyError> {
    run_to_end(register::parse(input, limits, &Pace::new(slice)))
}

pub(crate) fn laws_of(parse: Parse, data: &[u8]) {
    let [form, how, slice, rest @ ..] = data else {
        return;
    };
    let deflated = form & 3 == 2;
    let body = if deflated {
        deflate(rest, flate2::Compression::fast())
    } else {
        rest.to_vec()
    };
    let limits = if how & 8 == 0 {
        BodyLimits {
            inflated_bytes: 1 << 20,
            ..BodyLimits::default()
        }
    } else {
        BodyLimits {
            inflated_bytes: 512,
            name_bytes: 16,
            topics: 4,
        }
    };
    let input = RegisterInput {
        version: VERSIONS[usize::from(how & 7)],
        compressed: form & 3 != 0,
        body: &body,
        now_ms: NOW_MS,
    };
    let parsed = parse(&input, &limits, usize::MAX);
    assert_eq!(
        parse(&input, &limits, usize::from(*slice) + 1),
        parsed,
        "in slices"
    );
    if deflated {
        let body = &deflate(rest, flate2::Compression::none());
        let stored = RegisterInput { body, ..input };
        assert_eq!(
            parse(&stored, &limits, usize::MAX),
            parsed,
            "deflated in another way"
        );
    }
    what_no_digest_covers_means_nothing(parse, &input, &limits, &parsed);
    let Ok(body) = parsed else {
        return;
    };
    within_limits(&body, &input, &limits);
    only_a_default_is_of_now(parse, &input, &limits, &body);
    written_it_reads_the_same(parse, body);
}

/// Bodies that differ in their unread part alone share a digest, so they must share a meaning.
fn what_no_digest_covers_means_nothing(
    parse: Parse,
    input: &RegisterInput<'_>,
    limits: &BodyLimits,
    parsed: &Result<RegisterBody, BodyError>,
) {
    let part = unread_part(input.body);
    assert!(part.start <= part.end && part.end <= input.body.len());
    if part.is_empty() {
        return;
    }
    let (before, after) = (&input.body[..part.start], &input.body[part.end..]);
    let others: [&[u8]; 3] = [
        b"{}",
        b"{\"timestamp\":1,counter:-2}",
        b"{/**/'stateVersion':9,,}",
    ];
    for other in others {
        let body = &[before, other, after].concat();
        if unread_part(body) != (part.start..part.start + other.len()) {
            continue;
        }
        let other = parse(&RegisterInput { body, ..*input }, limits, usize::MAX);
        match (parsed, other) {
            (Ok(body), other) => assert_eq!(Ok(body), other.as_ref()),
            // its offset may have moved
            (Err(_), other) => assert!(other.is_err(), "refused with another unread part"),
        }
    }
}

fn within_limits(body: &RegisterBody, input: &RegisterInput<'_>, limits: &BodyLimits) {
    assert!(input.version >= 0);
    let most = limits.topics;
    assert!(body.topics.len() <= most && body.mappings.len() <= most);
    let name = |text: &str| assert!(text.len() <= limits.name_bytes, "{text:?} is too long");
    for topic in &body.topics {
        name(&topic.name);
        topic.key.iter().for_each(|key| name(key));
        assert_ne!(topic.key.as_ref(), Some(&topic.name));
    }
    for (key, mapping) in &body.mappings {
        name(key);
        for text in [&mapping.topic, &mapping.bname, &mapping.scope]
            .into_iter()
            .flatten()
        {
            name(text);
        }
        let queues = mapping.curr_id_map.as_deref().unwrap_or_default();
        assert!(queues.len() <= most && queues.is_sorted_by(|a, b| a.0 < b.0));
    }
    if let FilterServers::List(list) = &body.filter_servers {
        assert!(list.len() <= most);
        list.iter().for_each(|server| name(server));
    }
    // A few bytes of text make an entry, an entry a few hundred of memory.
    let plain = if input.body.first() == Some(&0x78) || input.compressed {
        limits.inflated_bytes
    } else {
        input.body.len()
    };
    assert!(
        body.size_bytes() <= 1024 + 256 * plain,
        "{} of {plain}",
        body.size_bytes()
    );
}

/// The time of decoding stands for a missing time stamp and for nothing else.
fn only_a_default_is_of_now(
    parse: Parse,
    input: &RegisterInput<'_>,
    limits: &BodyLimits,
    body: &RegisterBody,
) {
    let now_ms = NOW_MS + 7;
    let later = parse(&RegisterInput { now_ms, ..*input }, limits, usize::MAX);
    let mut expected = body.clone();
    if body.version_defaulted {
        let version = expected
            .data_version
            .as_mut()
            .expect("a default is a version");
        assert_eq!(version.timestamp, NOW_MS);
        version.timestamp = now_ms;
    }
    assert_eq!(later, Ok(expected));
}

fn written_it_reads_the_same(parse: Parse, body: RegisterBody) {
    fn input(body: &[u8]) -> RegisterInput<'_> {
        RegisterInput {
            version: 479,
            compressed: false,
            body,
            now_ms: NOW_MS,
        }
    }
    let limits = BodyLimits::default();
    let body = print::normal(body);
    if let Some(json) = print::json(&body) {
        let again = parse(&input(&json), &limits, usize::MAX);
        assert_eq!(again.map(print::normal).as_ref(), Ok(&body), "JSON");
    }
    if let Some((plain, expected)) = print::blocks(&body) {
        let zlib = deflate(&plain, flate2::Compression::fast());
        let again = parse(&input(&zlib), &limits, usize::MAX);
        assert_eq!(again, Ok(expected), "zlib");
    }
}
