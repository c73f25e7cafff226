//! Namespaced configuration (`KVConfigManager`): small, rarely changed, kept in a file.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::Name;
use super::snapshot::SharedBody;

/// The namespace whose entries order topics by broker (`NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG`).
pub const ORDER_TOPIC_CONFIG: &str = "ORDER_TOPIC_CONFIG";

/// All namespaces.
#[derive(Clone, Debug, Default)]
pub struct Kv {
    namespaces: BTreeMap<Name, Namespace>,
}

/// One namespace, which may be empty.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// Keys and values.
    pub table: Arc<BTreeMap<Name, Name>>,
    /// Answer of 219, and body of every answer to 103 for the order topics.
    shared: Arc<SharedBody>,
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

    /// These tables with one value more or changed.
    pub fn with(&self, namespace: &str, key: &str, value: &str) -> Self {
        let mut new = self.clone();
        let entry = new.namespaces.entry(Name::from(namespace)).or_default();
        Arc::make_mut(&mut entry.table).insert(Name::from(key), Name::from(value));
        entry.shared = Arc::default();
        new
    }
}

impl Namespace {
    /// `{"table":{…}}` (`KVTable`), made once.
    pub fn body(&self) -> Bytes {
        if let Some(body) = self.shared.get() {
            return body.clone();
        }
        let body = Bytes::from(self.table_json());
        self.shared.set(body.clone());
        body
    }

    fn table_json(&self) -> Vec<u8> {
        let mut out = b"{\"table\":{".to_vec();
        for (i, (key, value)) in self.table.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            crate::wire::fastjson::write_string(&mut out, key);
            out.push(b':');
            crate::wire::fastjson::write_string(&mut out, value);
        }
        out.extend_from_slice(b"}}");
        out
    }
}
