//! What a compiler does not check: sizes, module docs, and what the pure layers may not touch.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

/// A file should be readable in one sitting.
const FILE_LINES: usize = 600;

#[test]
fn files_can_be_read_in_one_sitting() {
    let too_long = |path: &PathBuf| {
        let lines = read(path).lines().count();
        (lines > FILE_LINES).then(|| format!("{}: {lines} lines", path.display()))
    };
    assert_none(sources().iter().filter_map(too_long));
}

#[test]
fn every_module_says_what_it_is() {
    let silent =
        |path: &&PathBuf| !read(path).starts_with("//!") && !read(path).starts_with("#![doc");
    assert_none(
        sources()
            .iter()
            .filter(|path| !(path.starts_with("src") && path.to_string_lossy().contains("tests")))
            .filter(silent)
            .map(|p| p.display().to_string()),
    );
}

/// `cargo check --lib --no-default-features` shows that no runtime is used; this, that nothing of
/// the standard library is that would make the same input give another output.
#[test]
fn pure_layers_touch_nothing_outside() {
    let banned = [
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "ToSocketAddrs",
        "std::fs",
        "std::thread",
        "std::env",
        "Instant::now",
        "SystemTime::now",
        "println!",
        "tracing::",
        "rand::",
    ];
    let pure = ["src/wire", "src/settings", "src/route", "src/session"];
    let files: Vec<_> = pure
        .iter()
        .flat_map(|folder| rust_files(Path::new(folder)))
        .collect();
    assert!(files.len() > 30, "the layers were not found");
    let code = files
        .iter()
        .filter(|path| !path.to_string_lossy().contains("tests"));
    assert_none(code.flat_map(|path| {
        let text = read(path);
        let found: Vec<_> = banned
            .iter()
            .filter(|word| text.contains(**word))
            .map(|word| format!("{}: {word}", path.display()))
            .collect();
        found
    }));
}

/// Edges go one way: wire, settings, route, session, server.
#[test]
fn layers_import_downwards() {
    let layers = ["wire", "settings", "route", "session", "server"];
    let mut wrong = Vec::new();
    for (level, layer) in layers.iter().enumerate() {
        for path in rust_files(&Path::new("src").join(layer)) {
            for above in &layers[level + 1..] {
                if read(&path).contains(&format!("crate::{above}")) {
                    wrong.push(format!("{} imports {above}", path.display()));
                }
            }
        }
    }
    for path in rust_files(Path::new("src/rt")) {
        if layers
            .iter()
            .any(|layer| read(&path).contains(&format!("crate::{layer}")))
        {
            wrong.push(format!("{} imports a layer", path.display()));
        }
    }
    assert_none(wrong);
}

#[test]
fn only_the_fence_names_glommio_or_is_unsafe() {
    let outside = sources().into_iter().filter(|path| {
        let code = path.starts_with("src") || path.starts_with("loadgen");
        code && !path.starts_with("src/rt")
    });
    let names_it = |path: &PathBuf| {
        let text = read(path);
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        code.into_iter()
            .any(|line| line.contains("glommio::") || line.contains("unsafe {"))
    };
    assert_none(outside.filter(names_it).map(|p| p.display().to_string()));
}

fn sources() -> Vec<PathBuf> {
    let folders = ["src", "tests", "benches", "loadgen"];
    folders
        .iter()
        .flat_map(|folder| rust_files(Path::new(folder)))
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn assert_none(wrong: impl IntoIterator<Item = String>) {
    let wrong: Vec<_> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
