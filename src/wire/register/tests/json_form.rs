//! Bodies of plain JSON.

use super::*;

/// A body whose wrapper has these members.
fn wrapper(members: &str) -> Result<RegisterBody, BodyError> {
    json(&format!(
        r#"{{"topicConfigSerializeWrapper":{{{members}}}}}"#
    ))
}

/// The one topic of a table that has this text as value of the key `T`.
fn topic(value: &str) -> Result<TopicConfig, BodyError> {
    let body = wrapper(&format!(r#""topicConfigTable":{{"T":{value}}}"#))?;
    assert_eq!(body.topics.len(), 1);
    Ok(body.topics[0].clone())
}

fn mapping(value: &str) -> Result<TopicQueueMappingInfo, BodyError> {
    let body = wrapper(&format!(r#""topicQueueMappingInfoMap":{{"T":{value}}}"#))?;
    assert_eq!(body.mappings[0].0, "T");
    Ok(body.mappings[0].1.clone())
}

#[test]
fn absent_parts_have_defaults() {
    let now = DataVersion {
        state_version: 0,
        timestamp: NOW_MS,
        counter: 0,
    };
    for body in [
        json("{}").unwrap(),
        wrapper("").unwrap(),
        wrapper("\"topicConfigTable\":{}").unwrap(),
    ] {
        assert_eq!(body.topics, []);
        assert_eq!(
            (body.data_version, body.version_defaulted),
            (Some(now), true)
        );
        assert_eq!(body.filter_servers, FilterServers::List(vec![]));
    }
    let version = |text: &str| {
        let body = wrapper(&format!("\"dataVersion\":{text}")).unwrap();
        (body.data_version, body.version_defaulted)
    };
    assert_eq!(version("null"), (None, false));
    assert_eq!(version("{}"), (Some(now), true));
    assert_eq!(version("{\"timestamp\":null}"), (Some(now), true));
    let given = DataVersion {
        state_version: -2,
        timestamp: 9,
        counter: 3,
    };
    assert_eq!(
        version("{\"counter\":\"3\",\"stateVersion\":-2,\"timestamp\":\"9\",\"x\":[]}"),
        (Some(given), false)
    );
}

#[test]
fn null_filter_list_leaves_the_entry() {
    let list =
        |text: &str| json(&format!("{{\"filterServerList\":{text}}}")).map(|b| b.filter_servers);
    assert_eq!(list("null"), Ok(FilterServers::Unchanged));
    assert_eq!(list("[]"), Ok(FilterServers::List(vec![])));
    let servers = vec!["a:1".to_owned(), "2".to_owned()];
    assert_eq!(list("['a:1',2,null,]"), Ok(FilterServers::List(servers)));
    assert!(list("{}").is_err());
    assert!(list("\"a\"").is_err());
    assert!(list("[[]]").is_err());
}

#[test]
fn topics_are_named_by_their_name_not_their_key() {
    let body = wrapper(
        r#""topicConfigTable":{"A":{"topicName":"B"},C:{topicName:"C"},5:{"topicName":5}}"#,
    )
    .unwrap();
    let names: Vec<_> = body
        .topics
        .iter()
        .map(|t| (t.key.as_deref(), &*t.name))
        .collect();
    assert_eq!(names, [(Some("A"), "B"), (None, "C"), (None, "5")]);
    assert_eq!(topic(r#"{"topicName":"\u0054"}"#).unwrap().key, None);
    assert_eq!(topic(r#"{"topicName":""}"#).unwrap().name, "");
}

#[test]
fn last_of_equal_keys_counts() {
    let topics = |table: &str| {
        let body = wrapper(&format!("\"topicConfigTable\":{{{table}}}")).unwrap();
        let entry =
            |t: TopicConfig| format!("{}:{}:{}", t.key.unwrap_or_default(), t.name, t.shape.perm);
        body.topics
            .into_iter()
            .map(entry)
            .collect::<Vec<_>>()
            .join(" ")
    };
    let one = |key: &str, name: &str, perm: i32| {
        format!(r#""{key}":{{"topicName":"{name}","perm":{perm}}},"#)
    };
    // neighbours leave one topic, which matters to the guard against a lone first topic
    assert_eq!(
        topics(&[one("A", "A", 1), one("A", "A", 2), one("A", "A", 3)].concat()),
        ":A:3"
    );
    // the key A holds C in the end: B is gone
    assert_eq!(
        topics(&[one("A", "B", 1), one("D", "D", 2), one("A", "C", 3)].concat()),
        ":D:2 A:C:3"
    );
    assert_eq!(
        topics(&[one("A", "B", 1), one("A", "A", 2)].concat()),
        ":A:2"
    );
    // equal names under different keys stay, in order
    assert_eq!(
        topics(&[one("A", "T", 1), one("T", "T", 2)].concat()),
        "A:T:1 :T:2"
    );
    let twice = json(
        r#"{"topicConfigSerializeWrapper":{"topicConfigTable":{"A":{"topicName":"A"}}},"topicConfigSerializeWrapper":{}}"#,
    );
    assert_eq!(twice.unwrap().topics, []);
}

#[test]
fn fields_of_a_topic_are_coerced() {
    for (fields, expected) in [
        (
            r#""readQueueNums":1,"writeQueueNums":2,"perm":3,"topicSysFlag":4"#,
            shape(1, 2, 3, 4),
        ),
        (
            "'readQueueNums':'1','writeQueueNums':2.9,perm:true,topicSysFlag:4L",
            shape(1, 2, 1, 4),
        ),
        (
            "READ_QUEUE_NUMS:1,\"write-Queue_nums\":7,Perm:2",
            shape(1, 7, 2, 0),
        ),
        (
            r#""perm":null,"readQueueNums":"","writeQueueNums":"null""#,
            shape(16, 16, 6, 0),
        ),
        (r#""perm":4,"perm":null"#, shape(16, 16, 4, 0)),
        (r#""perm":4,"perm":2"#, shape(16, 16, 2, 0)),
        (
            r#""topicFilterType":"NO_SUCH","order":"true","attributes":null"#,
            shape(16, 16, 6, 0),
        ),
        (
            r#""topicFilterType":1,"order":0,"attributes":{"+a":"b"}"#,
            shape(16, 16, 6, 0),
        ),
        (
            r#""unknown":{"deep":[[{"x":[1,"y"]}]]},"perm":2"#,
            shape(16, 16, 2, 0),
        ),
    ] {
        let found = topic(&format!("{{{fields},\"topicName\":\"T\"}}")).unwrap();
        assert_eq!(
            found,
            TopicConfig {
                key: None,
                name: "T".into(),
                shape: expected
            },
            "{fields}"
        );
    }
    for bad in [
        r#""perm":3000000000"#,
        r#""perm":"1.5""#,
        r#""perm":" ""#,
        r#""perm":"x""#,
        r#""perm":[]"#,
        r#""perm":{}"#,
        r#""order":"maybe""#,
        r#""topicFilterType":2"#,
        r#""topicFilterType":{}"#,
        r#""attributes":[]"#,
        r#""attributes":7"#,
        r#""topicName":{}"#,
        r#""@type":"x""#,
    ] {
        let result = topic(&format!("{{\"topicName\":\"T\",{bad}}}"));
        assert!(
            matches!(result, Err(BodyError::Undecodable(Malformed::Json(_)))),
            "{bad}"
        );
    }
}

#[test]
fn what_java_half_applies_is_refused() {
    for (result, what) in [
        (json("null"), "RegisterBrokerBody"),
        (json("\"\""), "RegisterBrokerBody"),
        (
            json(r#"{"topicConfigSerializeWrapper":null}"#),
            "topicConfigSerializeWrapper",
        ),
        (wrapper(r#""topicConfigTable":null"#), "topicConfigTable"),
        (
            wrapper(r#""topicQueueMappingInfoMap":null"#),
            "topicQueueMappingInfoMap",
        ),
        (wrapper(r#""topicConfigTable":{"T":null}"#), "TopicConfig"),
        (wrapper(r#""topicConfigTable":{"T":{}}"#), "topicName"),
        (
            wrapper(r#""topicConfigTable":{"T":{"topicName":null}}"#),
            "topicName",
        ),
        (
            wrapper(r#""topicQueueMappingInfoMap":{"T":null}"#),
            "TopicQueueMappingInfo",
        ),
        (
            wrapper(r#""topicQueueMappingInfoMap":{"T":{"currIdMap":{0:null}}}"#),
            "currIdMap entry",
        ),
    ] {
        assert_eq!(result, refused(Malformed::Null(what)));
    }
    let error = json("null").unwrap_err().to_string();
    assert_eq!(
        error,
        "org.apache.rocketmq.remoting.exception.RemotingCommandException: \
         Failed to decode RegisterBrokerBody, RegisterBrokerBody is null"
    );
}

#[test]
fn text_that_is_not_this_json_is_refused() {
    for bad in [
        "[]",
        "[{}]",
        "7",
        "true",
        " ",
        "{",
        "{}x",
        "{}{}",
        "{\"topicConfigSerializeWrapper\":[]}",
        "{\"topicConfigSerializeWrapper\":{\"topicConfigTable\":[]}}",
        "{\"topicConfigSerializeWrapper\":{\"topicQueueMappingDetailMap\":[]}}",
        "{\"topicConfigSerializeWrapper\":{\"mappingDataVersion\":1}}",
        "{\"x\":{\"y\":tru}}",
        "{\"x\":[1,2}",
    ] {
        assert!(is_json_error(&json(bad)), "{bad}");
    }
    assert!(json("{\"x\":[1,2,],} /* end */ \0\0").is_ok());
    assert_eq!(
        decode(479, false, b"{\"x\":\"\xff\"}"),
        refused(JsonError::Utf8(6))
    );
    // the JSON of a body that says it is compressed
    assert_eq!(
        decode(479, true, E3.as_bytes()),
        refused(InflateError::Corrupt)
    );
    let deep = format!("{{\"x\":{}1{}}}", "[".repeat(1000), "]".repeat(1000));
    assert!(is_json_error(&json(&deep)));
}

#[test]
fn static_topic_mappings_with_bare_keys() {
    let full = mapping(
        r#"{"bname":"b1","currIdMap":{1:10,0:-3,"2":"5",1:11},"dirty":true,"epoch":1700000000000,"scope":"s","topic":"T","totalQueues":3,"hostedQueues":{0:[{"x":1}]}}"#,
    );
    let expected = TopicQueueMappingInfo {
        topic: Some("T".into()),
        scope: Some("s".into()),
        total_queues: 3,
        bname: Some("b1".into()),
        epoch: 1_700_000_000_000,
        dirty: true,
        curr_id_map: Some(vec![(0, -3), (1, 11), (2, 5)]),
    };
    assert_eq!(full, Ok(expected));
    let empty = TopicQueueMappingInfo {
        topic: None,
        scope: Some("__global__".into()),
        total_queues: 0,
        bname: None,
        epoch: 0,
        dirty: false,
        curr_id_map: Some(vec![]),
    };
    assert_eq!(mapping("{}"), Ok(empty.clone()));
    let nulls = TopicQueueMappingInfo {
        scope: None,
        curr_id_map: None,
        ..empty
    };
    assert_eq!(
        mapping("{scope:null,currIdMap:null,topic:null,dirty:null,epoch:null}"),
        Ok(nulls)
    );
    assert!(mapping("{\"currIdMap\":{\"x\":1}}").is_err());
    assert!(mapping("{\"currIdMap\":[]}").is_err());
    let details = r#""topicQueueMappingDetailMap":{"T":{"hostedQueues":{0:[{"bname":"b"}]},"currIdMap":{0:0}}},"mappingDataVersion":{"counter":1}"#;
    assert!(wrapper(details).unwrap().mappings.is_empty());
}

#[test]
fn references_are_resolved_once() {
    let body = wrapper(
        r#""topicConfigTable":{"A":{"topicName":"A","perm":2},"B":{"$ref":"$.topicConfigSerializeWrapper.topicConfigTable.A"},"C":{"$ref":"$.topicConfigSerializeWrapper.x[1]['y.z']"}},"x":[0,{"y.z":{"topicName":"D"}}],"dataVersion":{"$ref":"$.topicConfigSerializeWrapper.v"},"v":{"counter":7,"timestamp":8},"topicQueueMappingInfoMap":{"M":{"$ref":"$.m"}}"#,
    );
    // `$.m` is not there
    assert_eq!(body, refused(Malformed::Reference));
    let body = json(
        r#"{"m":{"bname":"b"},"topicConfigSerializeWrapper":{"topicConfigTable":{"A":{"topicName":"A","perm":2},"B":{"$ref":"$.topicConfigSerializeWrapper.topicConfigTable.A"},"C":{"$ref":"$.topicConfigSerializeWrapper.x[1]['y.z']"}},"x":[0,{"y.z":{"topicName":"D"}}],"dataVersion":{"$ref":"$.topicConfigSerializeWrapper.v"},"v":{"counter":7,"timestamp":8},"topicQueueMappingInfoMap":{"M":{"$ref":"$.m"}}}}"#,
    )
    .unwrap();
    let topics: Vec<_> = body
        .topics
        .iter()
        .map(|t| (t.key.as_deref(), &*t.name, t.shape.perm))
        .collect();
    assert_eq!(
        topics,
        [(None, "A", 2), (Some("B"), "A", 2), (Some("C"), "D", 6)]
    );
    let version = DataVersion {
        state_version: 0,
        timestamp: 8,
        counter: 7,
    };
    assert_eq!(
        (body.data_version, body.version_defaulted),
        (Some(version), false)
    );
    assert_eq!(body.mappings[0].1.bname.as_deref(), Some("b"));
}

#[test]
fn references_that_lead_nowhere_are_refused() {
    for bad in [
        r#"{"$ref":"$.topicConfigSerializeWrapper.topicConfigTable.T"}"#,
        r#"{"$ref":"$.no.such"}"#,
        r#"{"$ref":"$.topicConfigSerializeWrapper[0]"}"#,
        r#"{"$ref":"$.topicConfigSerializeWrapper.mappingDataVersion"}"#,
        r#"{"$ref":"@"}"#,
        r#"{"$ref":".."}"#,
        r#"{"$ref":"$.a","topicName":"T"}"#,
    ] {
        assert_eq!(topic(bad), refused(Malformed::Reference), "{bad}");
    }
    for bad in [r#"{"$ref":"$"}"#, r#"{"$ref":7}"#, r#"{"$ref":"$.a"#] {
        assert!(topic(bad).is_err(), "{bad}");
    }
    assert!(
        json(r#"{"a":[1],"topicConfigSerializeWrapper":{"dataVersion":{"$ref":"$.a[1]"}}}"#)
            .is_err()
    );
    assert!(
        json(r#"{"a":[[1],2],"topicConfigSerializeWrapper":{"dataVersion":{"$ref":"$.a[0][5]"}}}"#)
            .is_err()
    );
    assert_eq!(wrapper(r#""$ref":"$.a""#), refused(Malformed::Reference));
    let table = |count: usize| {
        let entries: Vec<_> = (0..count)
            .map(|i| format!(r#""T{i}":{{"$ref":"$.t"}}"#))
            .collect();
        json(&format!(
            r#"{{"t":{{"topicName":"T"}},"topicConfigSerializeWrapper":{{"topicConfigTable":{{{}}}}}}}"#,
            entries.join(",")
        ))
    };
    assert_eq!(table(16).unwrap().topics.len(), 16);
    assert_eq!(table(17), refused(Malformed::Reference));
}

#[test]
fn part_that_is_stamped_anew_each_time_is_found() {
    let part = |text: &str| text[unread_part(text.as_bytes())].to_owned();
    let version = r#"{"counter":0,"stateVersion":0,"timestamp":1700000000000}"#;
    assert_eq!(part(E3), version);
    let start = E3.find("mappingDataVersion").unwrap() + "mappingDataVersion\":".len();
    assert_eq!(unread_part(E3.as_bytes()), start..start + version.len());
    for (members, expected) in [
        (r#""mappingDataVersion": {} "#, " {}"),
        (r#""x":{"mappingDataVersion":{}}"#, ""),
        (r#""mappingDataVersion":{"counter":[1]}"#, ""),
        (r#""mappingDataVersion":{"$ref":"$"}"#, ""),
        (r#""mappingDataVersion":null"#, ""),
        (r#""mappingDataVersion":{"counter":1"#, ""),
    ] {
        let text = format!(r#"{{"topicConfigSerializeWrapper":{{{members}"#);
        assert_eq!(part(&text), expected, "{text}");
    }
    for other in [
        r#"{"mappingDataVersion":{}}"#,
        r#"{"x":{"mappingDataVersion":{}}}"#,
        "[]",
        "",
    ] {
        assert_eq!(part(other), "");
    }
    assert_eq!(unread_part(&E4), 0..0);
    let far = E3.replace("[]", &format!("[\"{}\"]", "x".repeat(5000)));
    assert_eq!(part(&far), "");
}
