//! Namespaced configuration (`KVConfigManager`): small, rarely changed, kept in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::Name;
use super::command::KvChange;
use super::snapshot::SharedBody;
use crate::settings::limits::Limits;
use crate::wire::fastjson;
use crate::wire::json::{self, Value};
use crate::wire::pace::{Pace, run_to_end};

/// The namespace whose entries order topics by broker (`NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG`).
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// `{"table":{` … `}}`, and as much for the braces of a namespace in the file.
const NAMESPACE_BYTES: usize = 16;

/// What stands around a table in the answer of 219.
const BODY_HEAD: &[u8] = b"{\"table\":";
/// See [`BODY_HEAD`].
const BODY_END: &[u8] = b"}";

/// Copied between two reports of progress, and how much cheaper that is than to lex as much.
const COPY_BYTES: usize = 128 * 1024;
/// See [`COPY_BYTES`].
const COPY_BYTES_PER_UNIT: usize = 16;

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub struct Kv {
    namespaces: BTreeMap<Name, Namespace>,
    encoded_bytes: usize,
}

/// One namespace, which may be empty.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    table: Arc<BTreeMap<Name, Name>>,
    encoded_bytes: usize,
    shared: Arc<SharedBody>,
}

/// Why a KV file cannot be used; the server then does not start, as Java.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KvFileError {
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    Utf8,
    /// It is not JSON, even by fastjson's measure.
    #[error("it is not JSON: {0}")]
    Json(#[from] json::JsonError),
    /// It has no `configTable` object.
    #[error("it has no configTable")]
    NoTable,
    /// It holds more than this server takes.
    #[error("{0}")]
    Limit(&'static str),
}

impl Kv {
    /// A value.
    pub fn get(&self, namespace: &str, key: &str) -> Option<&Name> {
        self.namespaces.get(namespace)?.table.get(key)
    }

    /// A namespace, also when it has been emptied.
    pub fn namespace(&self, namespace: &str) -> Option<&Namespace> {
        self.namespaces.get(namespace)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.namespaces.values().map(|n| n.table.len()).sum()
    }

    /// There is no value, though there may be namespaces.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These tables after a change; `None` when it changes nothing. A put without a value leaves
    /// what Java leaves of it: the namespace, and no value. A delete leaves the namespace.
    pub fn changed(
        &self,
        change: &KvChange,
        limits: &Limits,
    ) -> Result<Option<Self>, &'static str> {
        let old = self.get(&change.namespace, &change.key);
        let value = match &change.put {
            None if old.is_none() => return Ok(None),
            None | Some(None) => None,
            Some(Some(value)) if old.is_some_and(|old| **old == **value) => return Ok(None),
            Some(Some(value)) => Some(value.as_str()),
        };
        let names = change.namespace.len().max(change.key.len());
        if names > limits.name_bytes {
            return Err("the namespace or the key is too long");
        }
        if value.is_some_and(|value| value.len() > limits.kv_value_bytes) {
            return Err("the value is too long");
        }
        let mut new = self.clone();
        new.set(&change.namespace, &change.key, value);
        let namespace = new.namespaces.get(change.namespace.as_str());
        if namespace.is_some_and(|n| n.encoded_bytes > limits.kv_namespace_bytes) {
            return Err("the namespace would be too large");
        }
        if new.encoded_bytes > limits.kv_total_bytes {
            return Err("the key-value tables would be too large");
        }
        Ok(Some(new))
    }

    /// The file's text: `{"configTable":{"NS":{"k":"v"}}}`. Makes the bodies of namespaces that
    /// have changed on its way, so that they stand ready before anyone reads them.
    pub async fn file_text(&self, pace: &Pace) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_bytes + NAMESPACE_BYTES);
        out.extend_from_slice(b"{\"configTable\":{");
        for (i, (name, namespace)) in self.namespaces.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            fastjson::write_string(&mut out, name);
            out.push(b':');
            let body = namespace.made_body(pace).await;
            for chunk in body[BODY_HEAD.len()..body.len() - BODY_END.len()].chunks(COPY_BYTES) {
                out.extend_from_slice(chunk);
                pace.step(chunk.len() / COPY_BYTES_PER_UNIT).await;
            }
        }
        out.extend_from_slice(b"}}");
        out
    }

    /// Reads a file: blank, `null` and `[]` are empty tables; values that are no strings become
    /// text, nulls vanish (`KVConfigManager.load`).
    pub fn from_file(bytes: &[u8], limits: &Limits) -> Result<Self, KvFileError> {
        let text = std::str::from_utf8(bytes).map_err(|_| KvFileError::Utf8)?;
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let root = json::parse(text)?;
        let namespaces = match &root {
            Value::Null => return Ok(Self::default()),
            Value::Array(items) if items.is_empty() => return Ok(Self::default()),
            Value::Object(_) => match root.field("configTable") {
                Some(Value::Object(members)) => members,
                _ => return Err(KvFileError::NoTable),
            },
            _ => return Err(KvFileError::NoTable),
        };
        let mut kv = Self::default();
        for namespace in namespaces {
            let Value::Object(members) = &namespace.value else {
                match namespace.value {
                    Value::Null => continue,
                    _ => return Err(KvFileError::NoTable),
                }
            };
            kv.namespaces.remove(&*namespace.key);
            kv.set_namespace(&namespace.key);
            for member in members {
                let value = json::text(member.value.clone())?;
                kv.set(&namespace.key, &member.key, value.as_deref());
            }
        }
        kv.check(limits)?;
        for namespace in kv.namespaces.values() {
            namespace.body();
        }
        Ok(kv)
    }

    fn check(&mut self, limits: &Limits) -> Result<(), KvFileError> {
        self.encoded_bytes = self.namespaces.values().map(|n| n.encoded_bytes).sum();
        let too_long = |n: &Namespace| n.table.values().any(|v| v.len() > limits.kv_value_bytes);
        if self.namespaces.values().any(too_long) {
            return Err(KvFileError::Limit("a value is too long"));
        }
        let too_large = |n: &Namespace| n.encoded_bytes > limits.kv_namespace_bytes;
        if self.namespaces.values().any(too_large) {
            return Err(KvFileError::Limit("a namespace is too large"));
        }
        if self.encoded_bytes > limits.kv_total_bytes {
            return Err(KvFileError::Limit("the tables are too large"));
        }
        Ok(())
    }

    fn set_namespace(&mut self, name: &str) -> &mut Namespace {
        if !self.namespaces.contains_key(name) {
            self.encoded_bytes += NAMESPACE_BYTES;
            let new = Namespace {
                encoded_bytes: NAMESPACE_BYTES,
                ..Namespace::default()
            };
            self.namespaces.insert(Name::from(name), new);
        }
        self.namespaces.entry(Name::from(name)).or_default()
    }

    fn set(&mut self, namespace: &str, key: &str, value: Option<&str>) {
        let entry = self.set_namespace(namespace);
        let before = entry.encoded_bytes;
        let table = Arc::make_mut(&mut entry.table);
        let old = match value {
            Some(value) => {
                entry.encoded_bytes += entry_bytes(key, value);
                table.insert(Name::from(key), Name::from(value))
            }
            None => table.remove(key),
        };
        entry.encoded_bytes -= old.map_or(0, |old| entry_bytes(key, &old));
        entry.shared = Arc::default();
        let after = entry.encoded_bytes;
        self.encoded_bytes = self.encoded_bytes + after - before;
    }
}

impl Namespace {
    /// `{"table":{…}}` (`KVTable`). Only made here when neither [`Kv::file_text`] nor
    /// [`Kv::from_file`] has seen the namespace: never of tables that a server has published.
    pub fn body(&self) -> Bytes {
        let body = self.shared.get().cloned();
        body.unwrap_or_else(|| run_to_end(self.made_body(&Pace::new(usize::MAX))))
    }

    async fn made_body(&self, pace: &Pace) -> Bytes {
        if let Some(body) = self.shared.get() {
            return body.clone();
        }
        let mut out = Vec::with_capacity(self.encoded_bytes + BODY_HEAD.len() + BODY_END.len());
        out.extend_from_slice(BODY_HEAD);
        write_table(&mut out, &self.table, pace).await;
        out.extend_from_slice(BODY_END);
        let body = Bytes::from(out);
        self.shared.set(body.clone());
        body
    }
}

async fn write_table(out: &mut Vec<u8>, table: &BTreeMap<Name, Name>, pace: &Pace) {
    out.push(b'{');
    for (i, (key, value)) in table.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        fastjson::write_string(out, key);
        out.push(b':');
        fastjson::write_string(out, value);
        pace.step(key.len() + value.len()).await;
    }
    out.push(b'}');
}

/// `"key":"value",` as it is written.
fn entry_bytes(key: &str, value: &str) -> usize {
    let mut out = Vec::with_capacity(key.len() + value.len() + 8);
    fastjson::write_string(&mut out, key);
    fastjson::write_string(&mut out, value);
    out.len() + 2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn put(kv: &Kv, namespace: &str, key: &str, value: &str) -> Kv {
        let change = KvChange {
            namespace: namespace.into(),
            key: key.into(),
            put: Some(Some(value.into())),
        };
        kv.changed(&change, &Limits::default()).unwrap().unwrap()
    }

    fn text(kv: &Kv) -> String {
        String::from_utf8(run_to_end(kv.file_text(&Pace::default()))).unwrap()
    }

    #[test]
    fn a_file_is_read_back() {
        let kv = put(&Kv::default(), "b", "k\n\"", "é\u{2028}/");
        let kv = put(&put(&kv, "a", "x", "1"), "a", "y", "");
        let file = text(&kv);
        assert_eq!(
            file,
            r#"{"configTable":{"a":{"x":"1","y":""},"b":{"k\n\"":"é\u2028/"}}}"#
        );
        let read = Kv::from_file(file.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(text(&read), file);
        assert_eq!(read.encoded_bytes, kv.encoded_bytes);
    }

    /// A serving core must not spend 10 ms on the 8 MiB that a namespace may have.
    #[test]
    fn bodies_stand_ready_before_anyone_reads_them() {
        let made = |kv: &Kv| -> Vec<bool> {
            let of = |n: &Namespace| n.shared.get().is_some();
            kv.namespaces.values().map(of).collect()
        };
        let kv = put(&put(&Kv::default(), "a", "x", "1"), "b", "y", "2");
        let file = text(&kv);
        assert_eq!(made(&kv), [true, true]);
        let changed = put(&kv, "b", "y", "3");
        assert_eq!(made(&changed), [true, false]);
        assert_eq!(text(&changed), file.replace('2', "3"));
        assert_eq!(made(&changed), [true, true]);
        let b = changed.namespace("b").unwrap().body();
        assert_eq!(&b[..], br#"{"table":{"y":"3"}}"#);
        let read = Kv::from_file(file.as_bytes(), &Limits::default()).unwrap();
        assert_eq!(made(&read), [true, true]);
    }

    #[test]
    fn bodies_are_made_and_copied_in_slices() {
        let values = 20;
        let value = "v".repeat(100_000);
        let kv = (0..values).fold(Kv::default(), |kv, i| {
            put(&kv, "n", &format!("k{i}"), &value)
        });
        let mut pauses = 0;
        let pace = Pace::default();
        let mut work = std::pin::pin!(kv.file_text(&pace));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        while work.as_mut().poll(&mut cx).is_pending() {
            pauses += 1;
        }
        // After each value, and four times while the 2 MB are copied.
        assert!(pauses >= values + 2, "{pauses}");
    }

    #[test]
    fn a_deleted_key_leaves_its_namespace() {
        let kv = put(&Kv::default(), "a", "x", "1");
        let delete = KvChange {
            namespace: "a".into(),
            key: "x".into(),
            put: None,
        };
        let kv = kv.changed(&delete, &Limits::default()).unwrap().unwrap();
        assert_eq!(text(&kv), r#"{"configTable":{"a":{}}}"#);
        assert_eq!(&kv.namespace("a").unwrap().body()[..], br#"{"table":{}}"#);
        assert!(kv.changed(&delete, &Limits::default()).unwrap().is_none());
        assert_eq!(kv.encoded_bytes, NAMESPACE_BYTES);
    }

    #[test]
    fn files_that_java_takes_for_empty() {
        for text in [
            "",
            " \n",
            "null",
            "[]",
            r#"{"configTable":{}}"#,
            r#"{"configTable":{"a":null}}"#,
        ] {
            let kv = Kv::from_file(text.as_bytes(), &Limits::default()).unwrap();
            assert!(kv.namespaces.is_empty(), "{text}");
        }
    }

    #[test]
    fn files_that_stop_the_start() {
        for text in [
            "{}",
            r#"{"configTable":null}"#,
            "{",
            r#"{"configTable":{}} x"#,
            "7",
        ] {
            assert!(
                Kv::from_file(text.as_bytes(), &Limits::default()).is_err(),
                "{text}"
            );
        }
        assert!(
            Kv::from_file(
                b"{\"configTable\":{\"a\":{\"b\":\"\xff\"}}}",
                &Limits::default()
            )
            .is_err()
        );
    }

    #[test]
    fn odd_values_become_text_and_nulls_vanish() {
        let file = br#"{other:1,'configTable':{"a":{"n":1.50,"b":true,"o":{"x":1},"z":null}}}"#;
        let kv = Kv::from_file(file, &Limits::default()).unwrap();
        assert_eq!(
            text(&kv),
            r#"{"configTable":{"a":{"b":"true","n":"1.50","o":"{\"x\":1}"}}}"#
        );
    }

    #[test]
    fn limits_refuse_a_put_and_a_file() {
        let limits = Limits {
            kv_value_bytes: 10,
            kv_namespace_bytes: 60,
            kv_total_bytes: 80,
            ..Limits::default()
        };
        let change = |namespace: &str, key: &str, value: &str| KvChange {
            namespace: namespace.into(),
            key: key.into(),
            put: Some(Some(value.into())),
        };
        let kv = Kv::default();
        assert!(
            kv.changed(&change("a", "k", "12345678901"), &limits)
                .is_err()
        );
        let kv = kv
            .changed(&change("a", "k", "1234567890"), &limits)
            .unwrap()
            .unwrap();
        let kv = kv
            .changed(&change("a", "l", "1234567890"), &limits)
            .unwrap()
            .unwrap();
        assert!(
            kv.changed(&change("a", "m", "1234567890"), &limits)
                .is_err()
        );
        let kv = kv
            .changed(&change("b", "m", "1"), &limits)
            .unwrap()
            .unwrap();
        assert!(kv.changed(&change("c", "m", "1"), &limits).is_err());
        let tight = Limits {
            kv_total_bytes: 30,
            ..limits
        };
        assert!(matches!(
            Kv::from_file(text(&kv).as_bytes(), &tight),
            Err(KvFileError::Limit(_))
        ));
    }
}
