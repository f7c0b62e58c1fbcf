//! The examples in `shims/docker`, interpreted without Docker: the same steps in namespaces.

use std::fs;
use std::path::Path;

use nix::sys::signal::Signal;

use super::{Root, static_program};
use crate::support::{Call, Sandbox, Status, has, ps_json, signal, wait_until};

/// An image, as far as its file was read.
struct Image<'a> {
    sandbox: &'a Sandbox,
    root: Root,
    env: Vec<(String, String)>,
    dir: String,
    user: Option<String>,
    entrypoint: Vec<String>,
    command: Vec<String>,
}

impl<'a> Image<'a> {
    /// Does what the file says, with the files of `context`.
    fn build(sandbox: &'a Sandbox, file: &str, context: &Path) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("shims/docker")
            .join(file);
        let text = fs::read_to_string(path).unwrap();
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut lines = lines.map(|line| line.split_once(' ').unwrap());
        let root = match lines.next() {
            Some(("FROM", "scratch")) => Root::new(sandbox, "image"),
            Some(("FROM", "busybox")) => Root::busybox(sandbox, "image"),
            other => panic!("{file} begins with {other:?}"),
        };
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
        let mut image = Self {
            sandbox,
            root,
            env: vec![("PATH".to_owned(), path)],
            dir: "/".to_owned(),
            user: None,
            entrypoint: Vec::new(),
            command: Vec::new(),
        };
        lines.for_each(|(word, rest)| image.step(word, rest, context));
        image
    }

    fn step(&mut self, word: &str, rest: &str, context: &Path) {
        let list = || serde_json::from_str(rest).unwrap();
        match word {
            "COPY" => {
                let (from, to) = rest.split_once(' ').unwrap();
                self.root.copy(&context.join(from), to);
            }
            "ENV" => {
                let (name, value) = rest.split_once('=').unwrap();
                self.env.push((name.to_owned(), value.to_owned()));
            }
            "WORKDIR" => {
                fs::create_dir_all(self.root.dir.join(rest.trim_start_matches('/'))).unwrap();
                rest.clone_into(&mut self.dir);
            }
            "USER" => self.user = Some(rest.to_owned()),
            "ENTRYPOINT" => self.entrypoint = list(),
            "CMD" => self.command = list(),
            "RUN" => {
                let ended = self.call(&["/bin/sh", "-c", rest]).run();
                assert!(ended.succeeded(), "RUN {rest}: {ended:?}");
            }
            _ => panic!("the interpreter does not know {word}"),
        }
    }

    fn call(&self, words: &[&str]) -> Call<'a> {
        let call = self
            .root
            .call(self.sandbox, &self.dir, self.user.as_deref());
        let call = call.args(words);
        // `unshare`, `mount` and `chroot` come from the machine's own directories, which are in it too.
        self.env
            .iter()
            .fold(call, |call, (name, value)| call.env(name, value))
    }

    /// `docker run`: words take the place of CMD.
    fn run(&self, words: &[&str]) -> Call<'a> {
        let command: Vec<&str> = if words.is_empty() {
            self.command.iter().map(String::as_str).collect()
        } else {
            words.to_vec()
        };
        let entrypoint = self.entrypoint.iter().map(String::as_str);
        self.call(&entrypoint.chain(command).collect::<Vec<_>>())
    }
}

/// A context with the program in it.
fn context(sandbox: &Sandbox) -> Option<std::path::PathBuf> {
    let program = static_program(sandbox)?;
    let dir = sandbox.path("context");
    fs::create_dir(&dir).unwrap();
    for name in ["agent-sh", "app"] {
        fs::copy(&program, dir.join(name)).unwrap();
    }
    Some(dir)
}

#[test]
fn an_image_with_a_shell() {
    if !has("busybox") {
        return;
    }
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let Some(context) = context(&sandbox) else {
        return;
    };
    let image = Image::build(&sandbox, "Dockerfile", &context);
    let ended = image.run(&[]).run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    let text = ended.text();
    assert!(
        text.contains("up\n") && text.contains("from a job"),
        "{ended:?}"
    );
    // The command's own words and code; a stop reaches job and command.
    let ended = image.run(&["sh", "-c", "pwd; exit 7"]).run();
    assert_eq!(
        (ended.status, ended.text().as_str()),
        (Status::Exited(7), "/srv\n"),
        "{ended:?}"
    );
    let text = "(trap ': >/tmp/bye; exit 4' TERM; : > /tmp/ready; while :; do sleep 0.05; done) & exec sleep 1000";
    let call = image.run(&["agent-sh-sh", "-c", text]).start();
    let ready = image.root.dir.join("tmp/ready");
    wait_until("the job has its trap", || ready.exists());
    let pid = call.pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    signal(children.trim().parse().unwrap(), Signal::SIGTERM);
    let ended = call.finish();
    assert_eq!(ended.status, Status::Exited(143), "{ended:?}");
    assert!(image.root.dir.join("tmp/bye").exists(), "{ended:?}");
}

#[test]
fn an_image_of_nothing() {
    let Some(sandbox) = Sandbox::with_namespaces() else {
        return;
    };
    let Some(context) = context(&sandbox) else {
        return;
    };
    if !nix::unistd::geteuid().is_root() {
        // Another user cannot be become in a namespace of one's own.
        return;
    }
    let image = Image::build(&sandbox, "Dockerfile.scratch", &context);
    assert_eq!(image.command, ["/app"]);
    let ended = image.run(&["/app", "--version"]).run();
    assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
    assert!(ended.text().starts_with("agent-sh "), "{ended:?}");
    let ended = image.run(&["/no-such-program"]).run();
    assert_eq!(ended.status, Status::Exited(127), "{ended:?}");
    assert!(ps_json(&sandbox).is_empty());
}
