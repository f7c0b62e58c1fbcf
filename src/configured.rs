//! The settings of this process, with the values that only the machine can judge: whether the shell can
//! be run, whether a sink is one. An environment that sets neither costs nothing here.

use std::path::Path;

use crate::notify::{self, Sink};
use crate::settings::{self, Checks, Settings};
use crate::shell::Ourselves;

/// From the environment and the user's file; bad values are noted, not fatal.
#[must_use]
pub fn settings(ourselves: &Ourselves) -> Settings {
    let env = |name: &str| std::env::var_os(name);
    let text = settings::config_path(env).and_then(|path| std::fs::read_to_string(path).ok());
    read(text.as_deref(), ourselves)
}

/// The same with the text of the file.
#[must_use]
pub fn read(text: Option<&str>, ourselves: &Ourselves) -> Settings {
    let env = |name: &str| std::env::var_os(name);
    let checks = Checks {
        shell: &|wanted: &Path| ourselves.check(wanted, env("PATH").as_deref()),
        sink: &sink,
    };
    Settings::read(env, text, checks)
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
