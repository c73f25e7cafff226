//! Answers against the worked examples of the protocol, whose bytes real servers gave.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap is the failure of the test"
)]

use proptest::prelude::*;

use super::*;
use crate::wire::frame::{FrameLimits, HEAD_BYTES, MAX_LENGTH, cut};
use crate::wire::header::Header;

const JSON: SerializeType = SerializeType::Json;
const BINARY: SerializeType = SerializeType::RocketMq;
const LIMITS: FrameLimits = FrameLimits {
    frame_bytes: 16_777_216,
    header_bytes: 1 << 20,
    ext_fields: 1_024,
};

const ROUTE_BODY: &str = concat!(
    r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"#,
    r#""brokerName":"a","cluster":"C","enableActingMaster":false}],"filterServerTable":{},"#,
    r#""queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"#,
    r#""writeQueueNums":4}]}"#,
);

/// The frame with the first 8 bytes `head` and the text `rest`.
fn frame(head: [u8; 8], rest: &str) -> Vec<u8> {
    [&head[..], rest.as_bytes()].concat()
}

/// One answer with a text body.
fn answer(
    serialize: SerializeType,
    opaque: i32,
    code: i32,
    remark: Option<&str>,
    ext: ReplyExt<'_>,
    body: &str,
) -> Vec<u8> {
    let mut out = Output::default();
    let size = out.reply(serialize, opaque, code, remark, ext, |buf| {
        buf.extend_from_slice(body.as_bytes());
    });
    assert_eq!(size, ReplySize::Fits);
    out.buf
}

fn miss(topic: &str) -> String {
    [remark::ROUTE_MISS_PREFIX, topic, remark::ROUTE_MISS_SUFFIX].concat()
}

#[test]
fn e1_a_route_miss_names_the_topic() {
    let expected = frame(
        [0, 0, 0, 0xf1, 0, 0, 0, 0xed],
        concat!(
            r#"{"code":17,"flag":1,"language":"JAVA","opaque":1,"remark":"No topic route info"#,
            r#" in name server for the topic: T\nSee https://rocketmq.apache.org/docs/bestPrac"#,
            r#"tice/06FAQ for further details.","serializeTypeCurrentRPC":"JSON","version":479}"#,
        ),
    );
    let code = response::TOPIC_NOT_EXIST;
    assert_eq!(
        answer(JSON, 1, code, Some(&miss("T")), ReplyExt::None, ""),
        expected
    );
}

#[test]
fn e2_an_unknown_code_has_a_leading_blank() {
    let expected = frame(
        [0, 0, 0, 0x8f, 0, 0, 0, 0x8b],
        concat!(
            r#"{"code":3,"flag":1,"language":"JAVA","opaque":2,"remark":" request type 9999 not"#,
            r#" supported","serializeTypeCurrentRPC":"JSON","version":479}"#,
        ),
    );
    let text = format!(
        "{}9999{}",
        remark::UNSUPPORTED_PREFIX,
        remark::UNSUPPORTED_SUFFIX
    );
    let code = response::REQUEST_CODE_NOT_SUPPORTED;
    assert_eq!(
        answer(JSON, 2, code, Some(&text), ReplyExt::None, ""),
        expected
    );
}

#[test]
fn e3_and_e4_registrations_carry_ext_fields_even_when_empty() {
    let master = frame(
        [0, 0, 0, 0x72, 0, 0, 0, 0x6e],
        concat!(
            r#"{"code":0,"extFields":{},"flag":1,"language":"JAVA","opaque":3,"#,
            r#""serializeTypeCurrentRPC":"JSON","version":479}"#,
        ),
    );
    assert_eq!(answer(JSON, 3, 0, None, ReplyExt::Fields(&[]), ""), master);
    let slave = frame(
        [0, 0, 0, 0xaf, 0, 0, 0, 0xab],
        concat!(
            r#"{"code":0,"extFields":{"haServerAddr":"10.0.0.1:10912","masterAddr":"#,
            r#""10.0.0.1:10911"},"flag":1,"language":"JAVA","opaque":4,"#,
            r#""serializeTypeCurrentRPC":"JSON","version":479}"#,
        ),
    );
    let ext = [
        ("haServerAddr", "10.0.0.1:10912"),
        ("masterAddr", "10.0.0.1:10911"),
    ];
    assert_eq!(answer(JSON, 4, 0, None, ReplyExt::Fields(&ext), ""), slave);
}

#[test]
fn e5_e6_and_e12_route_hits_have_the_short_header() {
    let standard = ROUTE_BODY
        .replace("{0:", r#"{"0":"#)
        .replace(",1:", r#","1":"#);
    let header = |opaque| {
        format!(r#"{{"code":0,"flag":1,"language":"JAVA","opaque":{opaque},"#)
            + r#""serializeTypeCurrentRPC":"JSON","version":479}"#
    };
    for (opaque, head, body) in [
        (5, [0, 0, 1, 0x5e, 0, 0, 0, 0x5f], ROUTE_BODY),
        (6, [0, 0, 1, 0x62, 0, 0, 0, 0x5f], standard.as_str()),
        (12, [0, 0, 1, 0x5f, 0, 0, 0, 0x60], ROUTE_BODY),
    ] {
        let expected = frame(head, &(header(opaque) + body));
        assert_eq!(
            answer(JSON, opaque, 0, None, ReplyExt::None, body),
            expected
        );
    }
}

#[test]
fn e7_binary_answers_mirror_the_binary_layout() {
    // The example is of 4.9.8: version 409 and its own address of the manual.
    let expected = [
        &[0, 0, 0, 0x8a, 1, 0, 0, 0x86][..],
        &[0, 0x11, 0, 1, 0x99, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0x71],
        b"No topic route info in name server for the topic: X\nSee ",
        b"http://rocketmq.apache.org/docs/faq/ for further details.",
        &[0, 0, 0, 0],
    ]
    .concat();
    let text = concat!(
        "No topic route info in name server for the topic: X\n",
        "See http://rocketmq.apache.org/docs/faq/ for further details.",
    );
    let mut written = answer(BINARY, 7, 17, Some(text), ReplyExt::None, "");
    assert_eq!(
        &written[HEAD_BYTES + 3..HEAD_BYTES + 5],
        &479u16.to_be_bytes()
    );
    written[HEAD_BYTES + 3..HEAD_BYTES + 5].copy_from_slice(&409u16.to_be_bytes());
    assert_eq!(written, expected);
}

#[test]
fn e7_a_binary_request_may_get_a_json_answer() {
    let json = answer(JSON, 7, 17, Some(&miss("X")), ReplyExt::None, "");
    assert_eq!(&json[..HEAD_BYTES], &[0, 0, 0, 0xf1, 0, 0, 0, 0xed]);
}

#[test]
fn e8_a_data_version_has_ext_fields_and_a_body() {
    let body = r#"{"counter":1,"stateVersion":0,"timestamp":1700000000000}"#;
    let header = concat!(
        r#"{"code":0,"extFields":{"changed":"false"},"flag":1,"language":"JAVA","opaque":8,"#,
        r#""serializeTypeCurrentRPC":"JSON","version":479}"#,
    );
    let expected = frame([0, 0, 0, 0xbb, 0, 0, 0, 0x7f], &[header, body].concat());
    let ext = ReplyExt::Fields(&[("changed", "false")]);
    assert_eq!(answer(JSON, 8, 0, None, ext, body), expected);
}

#[test]
fn e10_to_e14_and_e16_have_the_lengths_that_java_wrote() {
    let cluster = concat!(
        r#"{"brokerAddrTable":{"a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"#,
        r#""brokerName":"a","cluster":"C","enableActingMaster":false}},"#,
        r#""clusterAddrTable":{"C":["a"]}}"#,
    );
    let written = answer(JSON, 10, 0, None, ReplyExt::None, cluster);
    assert_eq!(&written[..HEAD_BYTES], &[0, 0, 1, 0x0e, 0, 0, 0, 0x60]);
    let group = concat!(
        r#"{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"#,
        r#""brokerName":"a","cluster":"C"}}"#,
    );
    let written = answer(
        JSON,
        11,
        0,
        Some(remark::STALE_DEFAULT),
        ReplyExt::None,
        group,
    );
    assert_eq!(&written[..HEAD_BYTES], &[0, 0, 0, 0xf5, 0, 0, 0, 0x85]);
    let text = [remark::KV_MISS_PREFIX, "N", remark::KV_MISS_KEY, "K"].concat();
    let written = answer(
        JSON,
        13,
        response::QUERY_NOT_FOUND,
        Some(&text),
        ReplyExt::Fields(&[]),
        "",
    );
    let expected = frame(
        [0, 0, 0, 0xa3, 0, 0, 0, 0x9f],
        concat!(
            r#"{"code":22,"extFields":{},"flag":1,"language":"JAVA","opaque":13,"remark":"#,
            r#""No config item, Namespace: N Key: K","serializeTypeCurrentRPC":"JSON","#,
            r#""version":479}"#,
        ),
    );
    assert_eq!(written, expected);
    let written = answer(JSON, 14, 0, None, ReplyExt::None, "");
    assert_eq!(&written[..HEAD_BYTES], &[0, 0, 0, 0x64, 0, 0, 0, 0x60]);
    let go_away = Some(remark::GO_AWAY);
    let written = answer(JSON, 1, response::GO_AWAY, go_away, ReplyExt::None, "");
    assert_eq!(&written[..HEAD_BYTES], &[0, 0, 0, 0x80, 0, 0, 0, 0x7c]);
}

#[test]
fn binary_ext_fields_are_length_prefixed() {
    let written = answer(
        BINARY,
        -2,
        0,
        None,
        ReplyExt::Fields(&[("value", "é")]),
        "body",
    );
    let header = [
        &[
            0, 0, 0, 1, 0xdf, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 1, 0, 0, 0, 0,
        ][..],
        &[0, 0, 0, 13, 0, 5],
        b"value",
        &[0, 0, 0, 2, 0xc3, 0xa9],
    ]
    .concat();
    let head = [0, 0, 0, 42, 1, 0, 0, 34];
    assert_eq!(written, [&head[..], &header, b"body"].concat());
    // No map and an empty map are the same bytes.
    let empty = answer(BINARY, 1, 0, None, ReplyExt::Fields(&[]), "");
    assert_eq!(empty, answer(BINARY, 1, 0, None, ReplyExt::None, ""));
}

#[test]
fn remarks_are_escaped_as_fastjson_does() {
    let written = answer(JSON, 1, 1, Some("a\"b\\c/\u{7f}é"), ReplyExt::None, "");
    let text = String::from_utf8(written[HEAD_BYTES..].to_vec()).unwrap();
    assert!(text.contains(r#""remark":"a\"b\\c/\u007Fé","#), "{text}");
}

#[test]
fn the_short_header_equals_the_general_one() {
    for opaque in [0, 1, -1, 10, i32::MIN, i32::MAX] {
        let mut general = Vec::new();
        let version = version::V5_3_3;
        let fields = HeaderFields {
            version,
            opaque,
            flag: 1,
            ..HeaderFields::default()
        };
        write_header(&mut general, JSON, &fields);
        let written = answer(JSON, opaque, 0, None, ReplyExt::None, "");
        assert_eq!(written[HEAD_BYTES..], general);
    }
}

#[test]
fn the_largest_answer_passes_and_one_byte_more_is_replaced() {
    for serialize in [JSON, BINARY] {
        let header_bytes = answer(serialize, 9, 0, None, ReplyExt::None, "").len() - HEAD_BYTES;
        let largest = MAX_LENGTH - 4 - header_bytes;
        let refusal = answer(
            serialize,
            9,
            1,
            Some("answer too large"),
            ReplyExt::None,
            "",
        );
        let mut out = Output::default();
        assert_eq!(
            out.reply(serialize, 1, 0, None, ReplyExt::None, |_| ()),
            ReplySize::Fits
        );
        let first = out.len();
        let fill = |bytes| move |buf: &mut Vec<u8>| buf.resize(buf.len() + bytes, 0);
        let size = out.reply(serialize, 9, 0, None, ReplyExt::None, fill(largest + 1));
        assert_eq!(size, ReplySize::TooLarge);
        assert_eq!(
            out.buf[first..],
            refusal,
            "and the frame before it is whole"
        );
        let size = out.reply(serialize, 9, 0, None, ReplyExt::None, fill(largest));
        assert_eq!(size, ReplySize::Fits);
        let frame = &out.buf[first + refusal.len()..];
        assert_eq!(
            cut(frame, &LIMITS).unwrap().unwrap().total_bytes,
            MAX_LENGTH + 4
        );

        let body = Bytes::from(vec![0; largest + 1]);
        let mut out = Output::default();
        let size = out.reply_shared(serialize, 9, 0, None, ReplyExt::None, body.clone());
        assert_eq!((size, out.shared.len()), (ReplySize::TooLarge, 0));
        assert_eq!(out.buf, refusal);
        let fits = body.slice(1..);
        let size = out.reply_shared(serialize, 9, 0, None, ReplyExt::None, fits);
        assert_eq!((size, out.shared.len()), (ReplySize::Fits, 1));
    }
}

#[test]
fn an_endless_remark_is_replaced_as_well() {
    let text = "x".repeat(MAX_LENGTH);
    let mut out = Output::default();
    let size = out.reply(JSON, 9, 1, Some(&text), ReplyExt::None, |_| ());
    assert_eq!(size, ReplySize::TooLarge);
    assert_eq!(
        out.buf,
        answer(JSON, 9, 1, Some("answer too large"), ReplyExt::None, "")
    );
}

#[test]
fn an_empty_shared_body_leaves_no_splice() {
    let mut out = Output::default();
    let size = out.reply_shared(JSON, 14, 0, None, ReplyExt::None, Bytes::new());
    assert_eq!(size, ReplySize::Fits);
    assert!(out.shared.is_empty());
    assert_eq!(out.buf, answer(JSON, 14, 0, None, ReplyExt::None, ""));
}

/// What the kernel would be given.
fn gathered(out: &Output, skip_bytes: usize) -> Vec<u8> {
    out.io_slices(skip_bytes)
        .iter()
        .flat_map(|slice| slice.iter().copied())
        .collect()
}

fn output(answers: &[(bool, i32, Vec<u8>)]) -> (Output, Vec<u8>) {
    let mut out = Output::default();
    let mut plain = Output::default();
    for (is_shared, opaque, body) in answers {
        let size = if *is_shared {
            let body = Bytes::copy_from_slice(body);
            out.reply_shared(JSON, *opaque, 0, None, ReplyExt::None, body)
        } else {
            let append = |buf: &mut Vec<u8>| buf.extend_from_slice(body);
            out.reply(JSON, *opaque, 0, None, ReplyExt::None, append)
        };
        assert_eq!(size, ReplySize::Fits);
        let append = |buf: &mut Vec<u8>| buf.extend_from_slice(body);
        assert_eq!(
            plain.reply(JSON, *opaque, 0, None, ReplyExt::None, append),
            ReplySize::Fits
        );
    }
    (out, plain.buf)
}

#[test]
fn nothing_unsent_is_an_empty_output_and_keeps_the_buffer() {
    let (mut out, plain) = output(&[(true, 1, vec![7; 9]), (false, 2, vec![8; 9])]);
    let capacity = out.buf.capacity();
    let rest = out.take_unsent(plain.len());
    assert!(rest.is_empty() && out.is_empty());
    assert_eq!(
        (rest.len(), out.len(), out.buf.capacity()),
        (0, 0, capacity)
    );
    assert!(rest.io_slices(0).is_empty());
}

#[test]
fn clear_drops_shared_bodies_too() {
    let (mut out, _) = output(&[(true, 1, vec![7; 9])]);
    assert!(!out.is_empty());
    out.clear();
    assert_eq!((out.is_empty(), out.len()), (true, 0));
}

proptest! {
    #[test]
    fn splices_are_sent_in_order_whatever_was_sent_before(
        answers in prop::collection::vec(
            (any::<bool>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..30)), 0..8),
        first in any::<prop::sample::Index>(),
        second in any::<prop::sample::Index>(),
    ) {
        let (mut out, plain) = output(&answers);
        prop_assert_eq!(out.len(), plain.len());
        prop_assert_eq!(&gathered(&out, 0), &plain);
        prop_assert!(out.io_slices(0).iter().all(|slice| !slice.is_empty()));
        let first = first.index(plain.len() + 1);
        prop_assert_eq!(&gathered(&out, first), &plain[first..]);
        let mut rest = out.take_unsent(first);
        prop_assert!(out.is_empty());
        prop_assert_eq!(rest.len(), plain.len() - first);
        prop_assert_eq!(&gathered(&rest, 0), &plain[first..]);
        let second = second.index(rest.len() + 1);
        let tail = rest.take_unsent(second);
        prop_assert_eq!(&gathered(&tail, 0), &plain[first + second..]);
    }

    #[test]
    fn every_answer_reads_back(
        is_binary in any::<bool>(),
        opaque in any::<i32>(),
        code in 0..=i32::from(i16::MAX),
        text in prop::option::of(any::<String>()),
        ext in prop::option::of(prop::collection::vec(("[a-z]{1,9}", ".{1,9}"), 0..4)),
        body in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let serialize = if is_binary { BINARY } else { JSON };
        let pairs: Option<Vec<_>> =
            ext.as_ref().map(|ext| ext.iter().map(|(k, v)| (&**k, &**v)).collect());
        let fields = pairs.as_deref().map_or(ReplyExt::None, ReplyExt::Fields);
        let mut out = Output::default();
        let append = |buf: &mut Vec<u8>| buf.extend_from_slice(&body);
        let size = out.reply(serialize, opaque, code, text.as_deref(), fields, append);
        prop_assert_eq!(size, ReplySize::Fits);
        let frame = cut(&out.buf, &LIMITS).unwrap().unwrap();
        prop_assert_eq!((frame.total_bytes, frame.body), (out.buf.len(), &body[..]));
        let header = Header::parse(&frame, &LIMITS).unwrap();
        prop_assert!(header.is_response());
        prop_assert_eq!((header.code, header.opaque, header.version), (code, opaque, 479));
        let read: Vec<_> = header.ext.fields.iter().map(|(k, v)| (&**k, &**v)).collect();
        prop_assert_eq!(read, pairs.unwrap_or_default());
    }
}
