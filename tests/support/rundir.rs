//! The directory of one test: logs, stores and configurations, kept when the test fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::say;

/// Below the target directory, named after this process and counted within it.
pub(crate) struct RunDir(PathBuf);

static MADE: AtomicU32 = AtomicU32::new(0);

impl RunDir {
    /// Also removes what failed runs left, except those that still go on.
    pub(crate) fn new(target: &Path) -> Self {
        let all = target.join("tmp/interop");
        for old in fs::read_dir(&all).into_iter().flatten().flatten() {
            let name = old.file_name();
            let process = name.to_str().and_then(|name| name.split('-').next());
            if !process.is_some_and(|process| Path::new("/proc").join(process).exists()) {
                // Another run may be doing the same.
                let _ = fs::remove_dir_all(old.path());
            }
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let own = all.join(format!("{}-{number}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        say(&format!("   files in {}", own.display()));
        Self(own)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn remove(self) {
        fs::remove_dir_all(self.0).unwrap();
    }
}
