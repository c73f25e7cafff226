//! To be written.

pub mod mailbox;
