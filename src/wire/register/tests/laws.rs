//! What holds for all registrations.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::encode::{compressed_body, json_body, zlib};
use super::*;

/// Any body that a Java broker could write.
fn any_body() -> impl Strategy<Value = RegisterBody> {
    let topics = btree_map(
        "[a-c]{1,3}",
        (option::of(".{0,12}"), any::<[i32; 4]>()),
        0..6,
    );
    let topics = topics.prop_map(|table| {
        let topic =
            |(key, (name, [read, write, perm, flag])): (String, (Option<String>, [i32; 4]))| {
                let name = name.unwrap_or_else(|| key.clone());
                let key = Some(key).filter(|key| *key != name);
                TopicConfig {
                    key,
                    name,
                    shape: shape(read, write, perm, flag),
                }
            };
        table.into_iter().map(topic).collect()
    });
    let version = option::of(any::<[i64; 3]>()).prop_map(|version| {
        version.map(|[state_version, timestamp, counter]| DataVersion {
            state_version,
            timestamp,
            counter,
        })
    });
    let filter_servers = option::of(vec(".{0,20}", 0..3))
        .prop_map(|list| list.map_or(FilterServers::Unchanged, FilterServers::List));
    (
        topics,
        version,
        vec((".{0,8}", any_mapping()), 0..3),
        filter_servers,
    )
        .prop_map(
            |(topics, data_version, mappings, filter_servers)| RegisterBody {
                topics,
                data_version,
                version_defaulted: false,
                mappings,
                filter_servers,
            },
        )
}

fn any_mapping() -> impl Strategy<Value = TopicQueueMappingInfo> {
    let name = || option::of(".{0,8}");
    let queues = option::of(btree_map(any::<i32>(), any::<i32>(), 0..5));
    (name(), name(), name(), any::<(i32, i64, bool)>(), queues).prop_map(
        |(topic, scope, bname, (total_queues, epoch, dirty), queues)| TopicQueueMappingInfo {
            topic,
            scope,
            total_queues,
            bname,
            epoch,
            dirty,
            curr_id_map: queues.map(|map| map.into_iter().collect()),
        },
    )
}

/// What is left of a body in the compressed form.
fn without_what_is_lost(mut body: RegisterBody) -> RegisterBody {
    for topic in &mut body.topics {
        topic.key = None;
        topic.name.retain(|char| char != ' ');
        topic.shape.topic_sys_flag = 0;
    }
    for (key, mapping) in &mut body.mappings {
        mapping.topic = Some(key.clone());
    }
    body
}

fn decode_paced(
    version: i32,
    compressed: bool,
    body: &[u8],
    slice: usize,
) -> (Result<RegisterBody, BodyError>, usize) {
    let input = RegisterInput {
        version,
        compressed,
        body,
        now_ms: NOW_MS,
    };
    let (limits, pace) = (BodyLimits::default(), Pace::new(slice));
    let mut work = pin!(parse(&input, &limits, &pace));
    let mut cx = Context::from_waker(Waker::noop());
    let mut pauses = 0;
    loop {
        match work.as_mut().poll(&mut cx) {
            Poll::Ready(result) => return (result, pauses),
            Poll::Pending => pauses += 1,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn json_body_comes_back(body in any_body()) {
        prop_assert_eq!(json(&json_body(&body)), Ok(body));
    }

    #[test]
    fn compressed_body_comes_back(body in any_body()) {
        let body = without_what_is_lost(body);
        prop_assert_eq!(decode(413, true, &compressed_body(&body, Some("{}"))), Ok(body.clone()));
        prop_assert_eq!(decode(479, false, &compressed_body(&body, Some(""))), Ok(body.clone()));
        let older = RegisterBody { mappings: Vec::new(), ..body };
        prop_assert_eq!(decode(409, true, &compressed_body(&older, None)), Ok(older));
    }

    /// Also of a body that is damaged somewhere.
    #[test]
    fn slices_do_not_change_the_result(
        body in any_body(), compressed: bool, slice in 1_usize..3000,
        at: prop::sample::Index, byte in option::of(any::<u8>()),
    ) {
        let mut bytes =
            if compressed { compressed_body(&body, Some("{}")) } else { json_body(&body).into_bytes() };
        if let Some(byte) = byte {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let whole = decode_paced(479, compressed, &bytes, usize::MAX / 2);
        let (sliced, pauses) = decode_paced(479, compressed, &bytes, slice);
        prop_assert_eq!(whole, (sliced, 0));
        prop_assert!(compressed || byte.is_some() || pauses >= bytes.len() / (slice + 1024));
    }

    #[test]
    fn unread_part_changes_nothing(body in any_body(), counter: i64, timestamp: i64) {
        let text = json_body(&body);
        let part = unread_part(text.as_bytes());
        prop_assert_eq!(&text[part.clone()], r#"{"counter":0,"stateVersion":0,"timestamp":1}"#);
        let other = format!(r#"{{"counter":{counter},"timestamp":{timestamp}}}"#);
        let changed = [&text[..part.start], &*other, &text[part.end..]].concat();
        prop_assert_eq!(json(&changed), Ok(body));
        prop_assert_eq!(unread_part(changed.as_bytes()), part.start..part.start + other.len());
    }

    #[test]
    fn never_panics(bytes in any::<Vec<u8>>(), compressed: bool, version in 0..420) {
        let _ = decode(version, compressed, &bytes);
        let _ = unread_part(&bytes);
        let _ = decode(version, true, &zlib(&bytes));
    }

    #[test]
    fn never_panics_near_the_format(
        text in r#"(\{|\}|\[|\]|,|:|"|1|null|true|"topicConfigSerializeWrapper":|"topicConfigTable":|"dataVersion":|"topicName":|"\$ref":"\$\.x"|"topicQueueMappingInfoMap":|"currIdMap":|"x":|"T"){0,30}"#,
        version in 36..38,
    ) {
        let _ = decode(version, false, format!("{{{text}").as_bytes());
        let _ = decode(version, false, format!("{{\"topicConfigSerializeWrapper\":{{{text}").as_bytes());
    }
}

#[test]
fn large_bodies_are_read_in_slices() {
    let topics = (0..1000).map(|i| TopicConfig {
        key: None,
        name: format!("BenchTopic{i}"),
        shape: shape(8, 8, 6, 0),
    });
    let body = RegisterBody {
        topics: topics.collect(),
        data_version: Some(DataVersion::default()),
        filter_servers: FilterServers::List(vec![]),
        ..RegisterBody::default()
    };
    let text = json_body(&body);
    let (result, pauses) = decode_paced(479, false, text.as_bytes(), 4096);
    assert_eq!(result.as_ref(), Ok(&body));
    assert!((4..8).contains(&pauses), "{pauses}");
    // token by token
    let text = text.replace(":{", ": {");
    let (result, pauses) = decode_paced(479, false, text.as_bytes(), 4096);
    assert_eq!(result.as_ref(), Ok(&body));
    assert!((35..60).contains(&pauses), "{pauses}");
    let packed = compressed_body(&body, Some("{}"));
    let (result, pauses) = decode_paced(479, true, &packed, 4096);
    assert_eq!(result, Ok(body));
    assert!(pauses >= 2, "{pauses}");
    // nothing that is passed over is read in one go
    for long in [
        format!("\"{}\"", "é".repeat(100_000)),
        "[{},".repeat(400) + &" ".repeat(200_000),
    ] {
        let (_, pauses) = decode_paced(479, false, format!("{{\"x\":{long}").as_bytes(), 4096);
        assert!(pauses >= 12, "{pauses}");
    }
}
