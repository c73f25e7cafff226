//! Runs one world under callgrind and reads what it counted.
//!
//! Callgrind collects only inside [`crate::measured`] and writes a file each time that function
//! returns; the world prints the gates' names in the same order.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::WORLD_FLAG;

/// The function, as callgrind prints it. No pattern: with one, callgrind 3.19 obeys only the last
/// of its options.
const MEASURED: &str = "icount::measured";
/// Where callgrind writes its files.
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/icount");

/// Instructions of one gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) gate: String,
    pub(crate) instructions: u64,
}

/// Counts the gates of a world, in their order.
pub(crate) fn count(world: &str) -> Result<Vec<Count>, String> {
    let folder = Path::new(FOLDER).join(world);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let file = folder.join("out");
    // The environment would move the stack about, and could choose other code in the C library.
    let run = Command::new("valgrind")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .args(["--tool=callgrind", "-q", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--dump-after={MEASURED}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args([WORLD_FLAG, world])
        .output()
        .map_err(|e| format!("valgrind (of Debian's package of that name): {e}"))?;
    if !run.status.success() {
        let said = String::from_utf8_lossy(&run.stderr);
        return Err(format!("world {world}: {}\n{said}", run.status));
    }
    let names = String::from_utf8_lossy(&run.stdout);
    let numbered = names.lines().zip(1..);
    numbered
        .map(|(gate, number)| {
            let file = folder.join(format!("out.{number}"));
            let text = fs::read_to_string(&file).map_err(|e| format!("gate {gate}: {e}"))?;
            let instructions = total(&text).ok_or_else(|| format!("gate {gate}: no total"))?;
            let gate = gate.to_owned();
            Ok(Count { gate, instructions })
        })
        .collect()
}

/// The sum over all functions, which is the last line of a file. Never zero: a gate that counts
/// nothing was not found.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.trim().parse().ok().filter(|count| *count > 0)
}
