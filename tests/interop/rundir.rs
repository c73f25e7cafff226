//! The directory of one run: logs, stores and configurations, kept when the run fails.

use std::fs;
use std::path::{Path, PathBuf};

use crate::process::say;

/// Below the target directory, named after this process.
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    /// Also removes what failed runs left, except those that still go on.
    pub(crate) fn new(target: &Path) -> Self {
        let all = target.join("tmp/interop");
        for old in fs::read_dir(&all).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(old.file_name()).exists() {
                // Another run may be doing the same.
                let _ = fs::remove_dir_all(old.path());
            }
        }
        let own = all.join(std::process::id().to_string());
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
