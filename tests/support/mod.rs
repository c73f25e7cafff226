//! What the tests share: requests as a Java peer sends them, answers as it reads them.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod answer;
pub(crate) mod fastjson;
pub(crate) mod kept;
pub(crate) mod node;
pub(crate) mod request;
pub(crate) mod workload;
