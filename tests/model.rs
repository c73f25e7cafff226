//! The model test: the server's pure half against the oracle.
mod oracle;
mod support;
