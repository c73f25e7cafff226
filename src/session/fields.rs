//! Typed reading of ext fields (`RemotingCommand.decodeCommandCustomHeader`): a field that is
//! missing or does not parse is null, and the handler decides what that means.

use crate::wire::header::ExtFields;

impl ExtFields<'_> {
    /// `Long`: digits with an optional sign.
    pub fn int64(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// `Integer`
    pub fn int32(&self, key: &str) -> Option<i32> {
        self.get(key)?.parse().ok()
    }

    /// `Boolean`: "true" in any case is true, everything else false.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        self.get(key).map(|text| text.eq_ignore_ascii_case("true"))
    }
}
