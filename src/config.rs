//! The settings of this process, with the values that only the machine can judge: whether the file is the
//! user's own, whether the shell can be run, whether a sink is one. An environment that sets neither costs
//! nothing here.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::notify::{self, Sink};
use crate::settings::{self, Checks, Settings};
use crate::shell::Ourselves;
use crate::sys::fsx;

/// No config file is larger.
const LARGEST: usize = 256 * 1024;

/// A variable that says where files of ours are. Where this program has more rights than its caller, the
/// caller has no say in that.
#[must_use]
pub(crate) fn env(name: &str) -> Option<OsString> {
    let is_place = name == "HOME" || name.starts_with("XDG_");
    std::env::var_os(name).filter(|_| !(is_place && fsx::is_privileged()))
}

/// The user's file.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// Where it is, or would be.
    pub path: Option<PathBuf>,
    text: Option<String>,
    /// Why it is there and not to be believed.
    distrusted: Option<String>,
}

impl ConfigFile {
    /// Reads it. An error if it is there and cannot be read.
    pub(crate) fn read() -> Result<Self, (PathBuf, io::Error)> {
        let Some(path) = settings::config_path(env) else {
            return Ok(Self::default());
        };
        let (text, distrusted) = match fsx::read_trusted(&path, LARGEST) {
            Ok(Ok(text)) => (Some(text), None),
            Ok(Err(why)) => (None, Some(why)),
            // Nor is there one where the home is no directory.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                (None, None)
            }
            Err(error) => return Err((path, error)),
        };
        Ok(Self {
            path: Some(path),
            text,
            distrusted,
        })
    }

    /// The settings with it.
    #[must_use]
    pub(crate) fn settings(&self, checks: Checks<'_>) -> Settings {
        let mut settings = Settings::read(env, self.text.as_deref(), checks);
        if let (Some(path), Some(why)) = (&self.path, &self.distrusted) {
            settings.distrust(path, why);
        }
        settings
    }

    /// The same, with what only the machine can judge.
    #[must_use]
    pub(crate) fn checked(&self, ourselves: &Ourselves) -> Settings {
        self.settings(Checks {
            shell: &|wanted: &Path| ourselves.check(wanted, env("PATH").as_deref()),
            sink: &sink,
        })
    }
}

/// From the environment and the user's file; bad values are noted, not fatal.
#[must_use]
pub(crate) fn settings(ourselves: &Ourselves) -> Settings {
    ConfigFile::read().unwrap_or_default().checked(ourselves)
}

/// Whether the setting `notify` may name it: what `notify add` takes.
fn sink(text: &str) -> Result<(), String> {
    match text.parse()? {
        Sink::Stdout => Err("'stdout' ends with the verb, and cannot be told later".to_owned()),
        Sink::Exec(path) => notify::exec::check(&path)
            .map_err(|why| format!("cannot use 'exec:{}': {why}", path.display())),
        _ => Ok(()),
    }
}
