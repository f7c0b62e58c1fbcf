//! GitHub's runner, played: each step is a script file for the shell that it names, with the files that a step
//! may write to. When the job is over, whatever carries its `RUNNER_TRACKING_ID` gets KILL.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{elements, example, free_port, pairs, project, text};
use crate::support::{Call, Ended, Sandbox, Status, has, ps_json, signal, wait_until};

/// What the runner runs without being told which shell.
const BUILT_IN: &str = "bash --noprofile --norc -e -o pipefail {0}";
const TRACKING: &str = "github_0d4f6d0e-93c1-4b5a-9a39-ci";

struct Runner<'a> {
    sandbox: &'a Sandbox,
    env: Vec<(String, String)>,
    default_shell: String,
    /// What steps put in front of the PATH.
    path: Vec<String>,
    failed: bool,
    summary: String,
    output: String,
    steps: usize,
}

impl<'a> Runner<'a> {
    fn new(sandbox: &'a Sandbox, job: &Value) -> Self {
        let shell = &job["defaults"]["run"];
        let fixed = [
            ("GITHUB_ACTIONS", "true"),
            ("CI", "true"),
            ("GITHUB_RUN_ID", "17"),
            ("GITHUB_JOB", "test"),
            ("GITHUB_RUN_ATTEMPT", "1"),
            ("RUNNER_NAME", "runner 1"),
            ("RUNNER_TRACKING_ID", TRACKING),
        ];
        let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut env: Vec<_> = pairs(&job["env"]).into_iter().chain(fixed).collect();
        let temp = sandbox.path("runner-temp");
        fs::create_dir(&temp).unwrap();
        env.push(("RUNNER_TEMP".to_owned(), temp.to_str().unwrap().to_owned()));
        env.push(("PORT".to_owned(), free_port()));
        Self {
            sandbox,
            env,
            default_shell: text(shell, "shell").unwrap_or(BUILT_IN).to_owned(),
            path: Vec::new(),
            failed: false,
            summary: String::new(),
            output: String::new(),
            steps: 0,
        }
    }

    /// All steps, as far as they are reached.
    fn run(&mut self, job: &Value, inputs: &[(&str, &str)]) {
        for step in job["steps"].as_array().unwrap() {
            if self.failed && text(step, "if") != Some("always()") {
                continue;
            }
            match text(step, "uses") {
                Some(action) if action.starts_with("agent-sh/agent-sh/shims/ci@") => {
                    self.composite(&example("action.yml"), inputs);
                }
                Some(action) => assert!(action.starts_with("actions/checkout@"), "{action}"),
                None => {
                    let shell = text(step, "shell")
                        .unwrap_or(&self.default_shell)
                        .to_owned();
                    self.step(step, &shell, &[]);
                }
            }
        }
    }

    fn composite(&mut self, action: &Value, inputs: &[(&str, &str)]) {
        for (name, input) in action["inputs"].as_object().unwrap() {
            assert!(text(input, "description").is_some(), "{name}");
        }
        let value = |name: &str| {
            let given = inputs.iter().find(|(input, _)| *input == name);
            let default = || action["inputs"][name]["default"].as_str().unwrap();
            given.map_or_else(default, |(_, value)| value).to_owned()
        };
        for step in action["runs"]["steps"].as_array().unwrap() {
            let env: Vec<(String, String)> = pairs(&step["env"])
                .into_iter()
                .map(|(name, text)| {
                    let input = text.strip_prefix("${{ inputs.").unwrap();
                    (name, value(input.strip_suffix(" }}").unwrap()))
                })
                .collect();
            // A composite action has to name its shell.
            assert_eq!(text(step, "shell"), Some("bash"));
            self.step(step, BUILT_IN, &env);
        }
    }

    fn step(&mut self, step: &Value, shell: &str, env: &[(String, String)]) {
        self.steps += 1;
        let file = |kind: &str| {
            let path = self.sandbox.path(format!("step{}.{kind}", self.steps));
            fs::write(&path, "").unwrap();
            path
        };
        let (script, summary, path) = (file("sh"), file("summary"), file("path"));
        fs::write(&script, text(step, "run").unwrap()).unwrap();
        let words: Vec<String> = shell
            .split(' ')
            .map(|word| word.replace("{0}", script.to_str().unwrap()))
            .collect();
        let usual = "/usr/local/bin:/usr/bin:/bin";
        let dirs: Vec<&str> = self
            .path
            .iter()
            .map(String::as_str)
            .chain([usual])
            .collect();
        // The runner looks for the shell on the PATH that it gives to the step.
        let call = self.sandbox.real_call("env").args(&words);
        let all = self.env.iter().chain(env);
        let call = all.fold(call, |call, (name, value)| call.env(name, value));
        let call = call
            .env("PATH", dirs.join(":"))
            .env("GITHUB_STEP_SUMMARY", &summary)
            .env("GITHUB_PATH", &path);
        let ended = call.run();
        self.note(&ended, &summary, &path);
    }

    fn note(&mut self, ended: &Ended, summary: &Path, path: &Path) {
        self.failed |= !ended.succeeded();
        self.output.push_str(&ended.text());
        self.output.push_str(&ended.errors());
        self.summary.push_str(&fs::read_to_string(summary).unwrap());
        for dir in fs::read_to_string(path).unwrap().lines() {
            self.path.insert(0, dir.to_owned());
        }
    }

    /// The end of the job: one look at all processes.
    fn clean_up(&self) -> Vec<i32> {
        let mark = format!("RUNNER_TRACKING_ID={TRACKING}");
        let own = |pid: &i32| {
            let env = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let here = self.sandbox.path("").to_str().unwrap().to_owned();
            let has = |wanted: &str| {
                env.split(|&byte| byte == 0)
                    .any(|pair| pair == wanted.as_bytes())
            };
            // Other tests may play a runner at the same time.
            has(&mark) && String::from_utf8_lossy(&env).contains(&here)
        };
        let all = fs::read_dir("/proc").unwrap();
        let pids = all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let found: Vec<i32> = pids.filter(own).collect();
        for &pid in &found {
            signal(pid, nix::sys::signal::Signal::SIGKILL);
        }
        found
    }
}

fn program(sandbox: &Sandbox) -> String {
    let program: PathBuf = sandbox.link("agent-sh");
    program.to_str().unwrap().to_owned()
}

#[test]
fn the_example_runs_and_reports() {
    if !has("python3") {
        return;
    }
    for build in [0, 3] {
        let sandbox = Sandbox::new();
        project(&sandbox, build);
        let job = &example("workflow.yml")["jobs"]["test"];
        let mut runner = Runner::new(&sandbox, job);
        runner.run(job, &[("program", &program(&sandbox))]);
        assert_eq!(runner.failed, build != 0, "{}", runner.output);
        assert!(
            runner.summary.contains("Still running"),
            "{}",
            runner.summary
        );
        let failed = runner.summary.contains("exited with 3");
        assert_eq!(failed, build != 0, "{}", runner.summary);
        let lines = runner.output.lines().filter(|line| line.starts_with("::"));
        let levels: Vec<&str> = lines.map(|line| line.split(' ').next().unwrap()).collect();
        let wanted: &[&str] = if build == 0 {
            &["::warning"]
        } else {
            &["::error", "::warning"]
        };
        assert_eq!(levels, wanted, "{}", runner.output);
        let found = elements(&sandbox, &sandbox.work().join("agent-sh.xml"));
        assert_eq!(found.contains(&"failure".to_owned()), build != 0);
        // The server has outlived its step; it does not outlive the job.
        let jobs = ps_json(&sandbox);
        let alive = |jobs: &[Value]| jobs.iter().filter(|job| job["state"] == "running").count();
        assert_eq!(alive(&jobs), 1, "{jobs:#?}");
        assert!(
            jobs.iter()
                .all(|job| job["session"] == "github-17-test-1-runner 1")
        );
        assert!(!runner.clean_up().is_empty());
        wait_until("nothing runs", || alive(&ps_json(&sandbox)) == 0);
        sandbox.assert_no_survivors();
        // Killed with its supervisor: if that had no time to see it, nobody did, and the record says so.
        let jobs = ps_json(&sandbox);
        let web = jobs.iter().find(|job| job["name"] == "web").unwrap();
        let known = web["state"] == "signaled" && web["signal"] == 9 || web["state"] == "lost";
        assert!(known, "{web:#}");
        assert_eq!(web["exit_code"], Value::Null, "{web:#}");
    }
}

/// What carries no mark of the job stays: the documented way to let something outlive it.
#[test]
fn an_empty_mark_lets_a_job_outlive_the_build() {
    let sandbox = Sandbox::new();
    let runner = Runner::new(&sandbox, &Value::Null);
    let run = |call: Call<'_>| {
        let ended = call.run();
        assert_eq!(ended.status, Status::Exited(0), "{ended:?}");
        ended.text().trim().to_owned()
    };
    let call = || sandbox.call("agent-sh").args(["run", "--", "sleep", "600"]);
    let dies = run(call().env("RUNNER_TRACKING_ID", TRACKING));
    let stays = run(call().env("RUNNER_TRACKING_ID", ""));
    // The job's process and its supervisor.
    assert_eq!(runner.clean_up().len(), 2);
    let state = |id: &str| {
        let jobs = ps_json(&sandbox);
        let job = jobs.into_iter().find(|job| job["id"] == id).unwrap();
        job["state"].as_str().unwrap().to_owned()
    };
    wait_until("one has gone", || state(&dies) != "running");
    assert_eq!(state(&stays), "running");
    assert!(sandbox.agent_sh(["kill", &stays]).succeeded());
    sandbox.assert_no_survivors();
}

/// A release as the workflow makes it: archive and checksums.
#[test]
fn the_action_installs_a_release() {
    if !has("curl") {
        return;
    }
    let sandbox = Sandbox::new();
    let machine = sandbox.real_call("uname").arg("-m").run().text();
    let name = format!("agent-sh-{}-linux", machine.trim());
    let script = sandbox.script("agent-sh", "#!/bin/sh\necho agent-sh 0.1.0\n");
    let pack = format!(
        "mkdir -p download/v0.1.0 {name} && cp {script} {name}/agent-sh && tar -czf download/v0.1.0/{name}.tar.gz {name} && \
         cd download/v0.1.0 && sha256sum {name}.tar.gz > SHA256SUMS"
    );
    let packed = sandbox.real_call("sh").args(["-c", &pack]).run();
    assert!(packed.succeeded(), "{packed:?}");
    let releases = format!("file://{}", sandbox.work().display());
    let install = |round: &str| {
        let mut runner = Runner::new(&sandbox, &Value::Null);
        let inputs = [("version", "v0.1.0"), ("releases", releases.as_str())];
        runner.composite(&example("action.yml"), &inputs);
        fs::rename(sandbox.path("runner-temp"), sandbox.path(round)).unwrap();
        (runner.failed, runner.path.len(), runner.output)
    };
    let (failed, added, output) = install("first");
    assert_eq!((failed, added), (false, 1), "{output}");
    assert!(output.ends_with("agent-sh 0.1.0\n"), "{output}");
    // An archive that is not what the checksums say is not unpacked.
    let archive = sandbox
        .work()
        .join(format!("download/v0.1.0/{name}.tar.gz"));
    let mut bytes = fs::read(&archive).unwrap();
    bytes.push(0);
    fs::write(&archive, bytes).unwrap();
    let (failed, added, output) = install("second");
    assert_eq!((failed, added), (true, 0), "{output}");
    assert!(!sandbox.path("second/agent-sh/agent-sh").exists());
}
