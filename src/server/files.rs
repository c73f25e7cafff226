//! The files that survive the process: `kvConfig.json` and the properties file. Read at start,
//! written by a thread of its own, never on a core.
//!
//! A write is a temporary file beside the old one, forced to the disk, renamed over it, and the
//! directory forced too: whoever is killed at any moment leaves the old or the new content. The
//! old content is kept as `.bak`, as Java does.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use super::mailbox::{Mailbox, MailboxReader, mailbox};
use crate::settings::properties;

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// `kvConfigPath`
    Kv,
    /// `configStorePath`
    Settings,
}

/// A file to write.
#[derive(Debug)]
pub(super) struct WriteRequest {
    pub(super) which: Which,
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// What to write.
#[derive(Debug)]
pub(super) enum Content {
    /// The whole text.
    Whole(Vec<u8>),
    /// Keys and values to put into the text that is there, comments and order kept.
    Properties(Vec<(String, String)>),
}

/// What came of a write: the reason when it failed.
pub(super) type Written = (Which, Result<(), String>);

/// The thread that writes, as the writer of the tables sees it: one write of each file at a time.
pub(super) struct Files {
    requests: SyncSender<WriteRequest>,
    pub(super) written: MailboxReader<Written>,
}

/// One place for each file.
const PLACES: usize = 2;

impl Files {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (requests, receiver) = sync_channel(PLACES);
        let (results, written) = mailbox(PLACES);
        thread::Builder::new()
            .name("namesrv-files".to_owned())
            .spawn(move || serve(&receiver, &results))?;
        Ok(Self { requests, written })
    }

    /// Begins a write; its result comes through `written`.
    pub(super) fn write(&self, write: WriteRequest) -> Result<(), String> {
        match self.requests.try_send(write) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err("a write is still under way".to_owned()),
            Err(TrySendError::Disconnected(_)) => Err("the file thread has ended".to_owned()),
        }
    }
}

fn serve(requests: &Receiver<WriteRequest>, results: &Mailbox<Written>) {
    while let Ok(request) = requests.recv() {
        let path = &request.path;
        let result = perform(path, request.content)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()));
        // There is a place for each file, and one write of each at a time.
        let _ = results.try_push((request.which, result));
    }
}

fn perform(path: &Path, content: Content) -> io::Result<()> {
    let old = match fs::read(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let new = match content {
        Content::Whole(new) => new,
        Content::Properties(changes) => {
            let text = old.as_deref().unwrap_or_default();
            properties::update(text, &changes)
                .map_err(|_| io::Error::other("its present text has a bad escape"))?
        }
    };
    if let Some(directory) = parent(path) {
        fs::create_dir_all(directory)?;
    }
    if let Some(old) = old {
        replace(&with_suffix(path, ".bak"), &old)?;
    }
    replace(path, &new)
}

/// Puts `content` in the place of the file, wholly or not at all.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    let result = write_through(&temporary, path, content);
    if result.is_err() {
        // The old file stands; what is left of the new one only takes room.
        let _ = fs::remove_file(&temporary);
    }
    result
}

fn write_through(temporary: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(content)?;
    if let Ok(old) = fs::metadata(path) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, path)?;
    File::open(parent(path).unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn parent(path: &Path) -> Option<&Path> {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("namesrv-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    #[test]
    fn a_write_makes_parents_and_keeps_the_old_content() {
        let directory = directory("write");
        let path = directory.join("a/b/kv.json");
        perform(&path, Content::Whole(b"one".to_vec())).unwrap();
        assert!(!with_suffix(&path, ".bak").exists());
        perform(&path, Content::Whole(b"two".to_vec())).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read(with_suffix(&path, ".bak")).unwrap(), b"one");
        assert!(!with_suffix(&path, ".tmp").exists());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn properties_keep_comments_and_order() {
        let directory = directory("properties");
        let path = directory.join("n.properties");
        let change = |k: &str, v: &str| Content::Properties(vec![(k.into(), v.into())]);
        perform(&path, change("a", "1")).unwrap();
        fs::write(&path, "# mine\nb=2\na=1\n").unwrap();
        perform(&path, change("a", "3")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "# mine\nb=2\na=3\n");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let directory = directory("failed");
        let path = directory.join("kv.json");
        perform(&path, Content::Whole(b"one".to_vec())).unwrap();
        // A directory in the place of the temporary file: it cannot be created.
        fs::create_dir(with_suffix(&path, ".tmp")).unwrap();
        assert!(perform(&path, Content::Whole(b"two".to_vec())).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::remove_dir_all(directory).unwrap();
    }
}
