//! The NameServer binary.
fn main() {}
