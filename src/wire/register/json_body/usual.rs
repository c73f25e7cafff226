//! An entry of a topic table exactly as Java brokers write it, which is what nearly all of the
//! bytes that a NameServer is sent consist of. It is compared with that form in one go, for a
//! fraction of what its forty tokens cost. Anything else, in whatever way it differs, is left to
//! the lexer: this decides how fast an entry is read, never what it means.

use crate::wire::json::{leading_integer, plain_string};
use crate::wire::model::QueueShape;

/// An entry whose key is its topic's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsualEntry<'a> {
    pub(super) name: &'a str,
    pub(super) shape: QueueShape,
    /// Bytes that it takes.
    pub(super) bytes: usize,
}

/// The entry at the start of `text`, if it is written as fastjson writes a `TopicConfig`: fields in
/// their order, nothing between them. `attributes` came with 5.0.
pub(super) fn usual_entry(text: &[u8]) -> Option<UsualEntry<'_>> {
    let mut rest = Rest(text);
    let name = rest.key()?;
    rest.literal("{")?;
    if rest.literal("\"attributes\":{").is_some() {
        rest.attributes()?;
    }
    rest.literal("\"order\":")?;
    rest.literal("false").or_else(|| rest.literal("true"))?;
    rest.literal(",\"perm\":")?;
    let perm = rest.number()?;
    rest.literal(",\"readQueueNums\":")?;
    let read_queues = rest.number()?;
    rest.literal(",\"topicFilterType\":\"SINGLE_TAG\",\"topicName\":\"")?;
    rest.literal(name)?;
    rest.literal("\",\"topicSysFlag\":")?;
    let topic_sys_flag = rest.number()?;
    rest.literal(",\"writeQueueNums\":")?;
    let write_queues = rest.number()?;
    rest.literal("}")?;
    let shape = QueueShape {
        read_queues,
        write_queues,
        perm,
        topic_sys_flag,
    };
    Some(UsualEntry {
        name,
        shape,
        bytes: text.len() - rest.0.len(),
    })
}

/// What has not been compared yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    #[inline]
    fn literal(&mut self, literal: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(literal.as_bytes())?;
        Some(())
    }

    #[inline]
    fn string(&mut self) -> Option<&'a str> {
        let string = plain_string(self.0)?;
        self.0 = &self.0[string.len() + 2..];
        Some(string)
    }

    /// With its colon. The lexer refuses `@type`, and says where.
    #[inline]
    fn key(&mut self) -> Option<&'a str> {
        let key = self.string().filter(|key| *key != "@type")?;
        self.literal(":")?;
        Some(key)
    }

    /// Strings by strings, up to the comma behind the object.
    fn attributes(&mut self) -> Option<()> {
        while self.literal("},").is_none() {
            self.key()?;
            self.string()?;
            if !self.0.starts_with(b"}") {
                self.literal(",")?;
            }
        }
        Some(())
    }

    #[inline]
    fn number(&mut self) -> Option<i32> {
        let (number, rest) = leading_integer(self.0)?;
        self.0 = rest;
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::json::{self, Value};

    const V4: &str = r#""T_1":{"order":true,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"T_1","topicSysFlag":0,"writeQueueNums":8}"#;
    const V5: &str = r#""%RETRY%é":{"attributes":{},"order":false,"perm":2,"readQueueNums":0,"topicFilterType":"SINGLE_TAG","topicName":"%RETRY%é","topicSysFlag":1,"writeQueueNums":123456789}"#;
    const TYPED: &str = r#""t":{"attributes":{"message.type":"FIFO","x":""},"order":false,"perm":6,"readQueueNums":4,"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4}"#;

    /// What the lexer makes of an entry that was found usual.
    fn by_tokens(entry: &str) -> UsualEntry<'_> {
        let bytes = entry.len();
        let text = format!("{{{entry}}}");
        let Value::Object(members) = json::parse(&text).expect("it is JSON") else {
            panic!("it is a member");
        };
        let [member] = members.as_slice() else {
            panic!("it is one member");
        };
        let number = |field| {
            let value = member.value.field(field).expect("it is there");
            json::int32(value).expect("it fits").expect("it is no null")
        };
        let name = member.value.field("topicName").cloned();
        assert_eq!(name, Some(Value::String(member.key.clone())));
        assert!(matches!(member.value.field("order"), Some(Value::Bool(_))));
        let start = entry.find(&*member.key).expect("it is written as it is");
        UsualEntry {
            name: &entry[start..start + member.key.len()],
            shape: QueueShape {
                read_queues: number("readQueueNums"),
                write_queues: number("writeQueueNums"),
                perm: number("perm"),
                topic_sys_flag: number("topicSysFlag"),
            },
            bytes,
        }
    }

    #[test]
    fn what_brokers_write_is_usual() {
        for text in [V4, V5, TYPED] {
            assert_eq!(usual_entry(text.as_bytes()), Some(by_tokens(text)));
            let longer = format!("{text},\"U\":{{}}");
            assert_eq!(usual_entry(longer.as_bytes()), Some(by_tokens(text)));
        }
    }

    #[test]
    fn nothing_else_is() {
        for (from, to) in [
            ("\"T_1\":{", "\"T_2\":{"),
            ("\"T_1\":{", "\"T\\u005f1\":{"),
            ("\"T_1\":{", "'T_1':{"),
            ("{\"order\"", "{ \"order\""),
            ("true", "TRUE"),
            ("6", "-6"),
            ("6", "6.0"),
            ("6", "1234567890"),
            ("6", "45995194916"),
            ("6", ""),
            ("6", "\"6\""),
            ("SINGLE_TAG", "MULTI_TAG"),
            ("8}", "8,\"perm\":4}"),
            ("{\"order\"", "{\"attributes\":{\"@type\":\"x\"},\"order\""),
            ("{\"order\"", "{\"attributes\":{\"a\":1},\"order\""),
            ("{\"order\"", "{\"attributes\":{\"a\":\"\\n\"},\"order\""),
            ("{\"order\"", "{\"attributes\":null,\"order\""),
        ] {
            let text = V4.replacen(from, to, 1);
            assert_ne!(text, V4, "{from}");
            assert_eq!(usual_entry(text.as_bytes()), None, "{text}");
        }
        assert_eq!(usual_entry(V4.replace("T_1", "@type").as_bytes()), None);
        for end in 0..V5.len() {
            assert_eq!(usual_entry(&V5.as_bytes()[..end]), None);
        }
        let mut bytes = V5.as_bytes().to_vec();
        bytes[8] = 0xFF;
        assert_eq!(usual_entry(&bytes), None);
    }

    proptest! {
        #[test]
        fn what_is_usual_means_the_same_token_by_token(
            text in prop::sample::select(vec![V4, V5, TYPED]),
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(b"\",:{}[]\\09-.e \n/'_$@t\x7f\x80".to_vec())),
                0..3,
            ),
            twice in any::<Option<prop::sample::Index>>(),
        ) {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(at) = twice {
                let at = at.index(bytes.len());
                bytes.insert(at, bytes[at]);
            }
            if let Some(entry) = usual_entry(&bytes) {
                let text = str::from_utf8(&bytes[..entry.bytes]).expect("it is UTF-8");
                prop_assert_eq!(entry, by_tokens(text));
            }
        }
    }
}
