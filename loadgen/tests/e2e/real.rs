//! The real server, built from this workspace.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// A running server; ends with this value.
pub(crate) struct Real {
    pub(crate) addr: SocketAddr,
    child: Child,
}

impl Real {
    /// Starts one on a free port.
    pub(crate) fn start(name: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let addr = free_addr();
        let config = folder.join("namesrv.properties");
        let lines = format!(
            "listenPort={}\nkvConfigPath={}\n",
            addr.port(),
            folder.join("kvConfig.json").display()
        );
        std::fs::write(&config, lines).unwrap();
        let mut child = Command::new(binary())
            .arg("-c")
            .arg(&config)
            .env("HOME", &folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let booted = lines.any(|line| line.unwrap().contains("boot success"));
        assert!(booted, "the server ended");
        std::thread::spawn(move || lines.for_each(drop));
        Self { addr, child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_addr() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// The binary of this build, made if it is missing or old: cargo builds no binaries of other
/// packages for a test.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let own = Path::new(env!("CARGO_BIN_EXE_loadgen"));
        let profile = own.parent().unwrap();
        let is_release = profile.ends_with("release");
        let mut build = Command::new(env!("CARGO"));
        build.args([
            "build", "--quiet", "--locked", "-p", "namesrv", "--bin", "namesrv",
        ]);
        build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
        build.arg("--target-dir").arg(profile.parent().unwrap());
        if is_release {
            build.arg("--release");
        }
        assert!(
            build.status().unwrap().success(),
            "the server cannot be built"
        );
        profile.join("namesrv")
    })
}
