//! The tool as its users run it: against the real server, and against one with a fault.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod compare;
mod faults;
mod faulty;
mod find_max;
mod real;
mod scenarios;
mod tool;
