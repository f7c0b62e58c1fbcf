//! Finding the real shell (or another program we stand in for), never ourselves.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, cause};
use crate::invocation::ShellCall;
use crate::syntax::Dialect;
use crate::sys::process;

/// Where programs are when PATH does not say.
const USUAL_PLACES: &[&str] = &["/bin", "/usr/bin", "/usr/local/bin"];

/// The shell that runs the text.
#[derive(Debug)]
pub(crate) struct RealShell {
    pub path: PathBuf,
    /// Its name as error messages and `$0` should show it when we were called by our own name.
    pub name: String,
    /// The grammar it reads; `None`: no grammar of ours, the text stays untouched.
    pub dialect: Option<Dialect>,
    /// Many programs in one (busybox): which of them runs is told by its argv[0] alone.
    pub is_many: bool,
}

/// Who we are, to be told from the shell we look for: the same file by any name, or a copy of it.
pub(crate) struct Ourselves {
    path: PathBuf,
    file: Option<Metadata>,
}

impl Ourselves {
    #[must_use]
    pub(crate) fn find() -> Self {
        if let Ok(path) = fs::read_link("/proc/self/exe") {
            let file = fs::metadata("/proc/self/exe").ok();
            return Self { path, file };
        }
        // Without /proc: by the name that we were exec'd by. For a script that names us in its first
        // line that is the script.
        let path = process::executed_path().and_then(|path| fs::canonicalize(path).ok());
        let path = path.filter(|path| is_machine_code(path));
        Self {
            file: path.as_ref().and_then(|path| fs::metadata(path).ok()),
            path: path.unwrap_or_default(),
        }
    }

    /// The path of this program, for the launcher's calls.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn is(&self, path: &Path, file: &Metadata) -> bool {
        let Some(own) = &self.file else { return false };
        if own.dev() == file.dev() && own.ino() == file.ino() {
            return true;
        }
        own.size() == file.size() && fs::read(path).ok() == fs::read(&self.path).ok()
    }

    /// Whether this path leads to us.
    #[must_use]
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        fs::metadata(path).is_ok_and(|file| self.is(path, &file))
    }

    /// `path`, if it is a program and not us.
    fn other_program(&self, path: PathBuf) -> Option<PathBuf> {
        let file = fs::metadata(&path).ok()?;
        (is_executable(&file) && !self.is(&path, &file)).then_some(path)
    }

    /// The first program of that name that is not us, in PATH, then in the usual places.
    #[must_use]
    pub(crate) fn look_up(&self, name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return self.other_program(PathBuf::from(name));
        }
        let listed = path
            .unwrap_or_default()
            .as_bytes()
            .split(|&byte| byte == b':');
        // Who does not know itself must not trust a PATH that may lead back to it.
        listed
            .filter(|dir| dir.starts_with(b"/") && self.file.is_some())
            .map(|dir| Path::new(OsStr::from_bytes(dir)))
            .chain(USUAL_PLACES.iter().map(Path::new))
            .find_map(|dir| self.other_program(dir.join(name)))
    }

    /// Whether this can be the setting `shell`; if not, why.
    pub(crate) fn check(
        &self,
        wanted: &Path,
        path: Option<&OsStr>,
    ) -> std::result::Result<(), String> {
        if self.look_up(wanted.as_os_str(), path).is_some() {
            return Ok(());
        }
        Err(match fs::metadata(wanted) {
            _ if !wanted.is_absolute() => "no shell of that name in PATH".to_owned(),
            Err(error) => cause(&error),
            Ok(file) if is_executable(&file) => "is agent-sh itself, not the real shell".to_owned(),
            Ok(_) => "is no program that can be run".to_owned(),
        })
    }
}

fn is_machine_code(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0u8; 4];
    fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
        && magic == *b"\x7fELF"
}

/// Finds the shell that `call` stands for. `wanted` is the setting `shell`: it decides when we were
/// called by a name of our own; when called as `zsh` it can only say which zsh.
pub(crate) fn find(
    call: &ShellCall,
    wanted: Option<&Path>,
    path: Option<&OsString>,
    ourselves: &Ourselves,
) -> Result<RealShell> {
    let path = path.map(OsString::as_os_str);
    let named = call.stands_for.as_deref();
    let override_ = wanted.filter(|wanted| {
        named.is_none() || call.disguised || wanted.file_name() == named.map(OsStr::new)
    });
    if let Some(found) = override_.and_then(|w| ourselves.look_up(w.as_os_str(), path)) {
        return Ok(describe(found));
    }
    let candidates: &[&str] = match named {
        Some(name) => &[name],
        None => &["bash", "sh"],
    };
    candidates
        .iter()
        .find_map(|name| ourselves.look_up(OsStr::new(name), path))
        .map(describe)
        .ok_or_else(|| Error::NoShell {
            wanted: named.unwrap_or("bash").to_owned(),
        })
}

fn describe(path: PathBuf) -> RealShell {
    let name_of = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let name = name_of(&path);
    // `sh` and `rbash` are other shells under another name.
    let real = match name.as_str() {
        "bash" | "zsh" | "dash" => name.clone(),
        _ => fs::canonicalize(&path)
            .map(|path| name_of(&path))
            .unwrap_or_default(),
    };
    let dialect = match real.as_str() {
        "bash" => Some(Dialect::Bash),
        "zsh" | "zsh5" => Some(Dialect::Zsh),
        "dash" => Some(Dialect::Posix),
        _ => None,
    };
    RealShell {
        path,
        name,
        dialect,
        is_many: real.starts_with("busybox") || real.starts_with("toybox"),
    }
}

/// The path of a program as a shell would find it; `None` when it would not.
#[must_use]
pub(crate) fn find_program(name: &OsStr) -> Option<PathBuf> {
    find_program_in(name, std::env::var_os("PATH").as_deref())
}

/// The same with a PATH of one's own.
#[must_use]
pub(crate) fn find_program_in(name: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| path.exists());
    }
    let path = path.unwrap_or(OsStr::new("/usr/bin:/bin"));
    std::env::split_paths(path)
        .map(|dir| {
            if dir.as_os_str().is_empty() {
                PathBuf::from(".").join(name)
            } else {
                dir.join(name)
            }
        })
        .find(|path| is_program(path))
}

/// Whether it is a file that can be run.
#[must_use]
pub(crate) fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| is_executable(&file))
}

fn is_executable(file: &Metadata) -> bool {
    file.is_file() && file.permissions().mode() & 0o111 != 0
}
