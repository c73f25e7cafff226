//! Bytes of the RocketMQ remoting protocol, and nothing else.
//!
//! ```text
//!  0        4        5            8                    8+headerLen         4+length
//!  +--------+--------+------------+--------------------+-------------------+
//!  | length | type   | headerLen  | header             | body              |
//!  +--------+--------+------------+--------------------+-------------------+
//!    u32      0 JSON   u24          JSON or binary       opaque, may be empty
//!             1 binary
//! ```
//!
//! Pure: no clock, no socket, no file; the path of a route read allocates nothing.
//! Errors come as values, and each says whether the connection can go on: everything that
//! breaks framing or the header ends the connection, a bad body is answered with code 1.

pub mod codes;
pub mod fastjson;
pub mod frame;
pub mod header;
mod header_binary;
mod header_json;
pub mod inflate;
pub mod json;
pub mod model;
pub mod pace;
pub mod register;
pub mod reply;
