//! libFuzzer's entry to one of the targets, which `FUZZ` names.
#![no_main]

#[path = "../model/run.rs"]
mod model;
#[path = "../oracle/mod.rs"]
mod oracle;
#[path = "../support/mod.rs"]
mod support;
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static LAWS: OnceLock<fn(&[u8])> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("FUZZ").unwrap_or_default();
        let target = targets::ALL.iter().find(|target| target.name == name);
        let Some(target) = target else {
            let names: Vec<_> = targets::ALL.iter().map(|target| target.name).collect();
            panic!("FUZZ={name:?} is none of {}", names.join(", "));
        };
        LAWS.get_or_init(|| target.laws);
    },
    |data: &[u8]| LAWS.get().expect("init came first")(data)
);
