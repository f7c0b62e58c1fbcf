//! The shell executor of GitLab's runner, played: one script over stdin for `before_script` and `script`, another
//! one for `after_script`; then TERM to the group, and KILL.

use std::fs;

use serde_json::Value;

use super::{elements, example, free_port, project};
use crate::support::{Ended, Input, Sandbox, Status, group_kill, has, ps_json};

fn lines<'a>(job: &'a Value, key: &str) -> Vec<&'a str> {
    let lines = job[key].as_array().into_iter().flatten();
    lines.map(|line| line.as_str().unwrap()).collect()
}

/// What the runner makes of the lines of a job.
fn script(parts: &[Vec<&str>]) -> String {
    let quoted = |line: &str| line.replace('\\', "\\\\").replace('\'', "\\'");
    let lines = parts.concat();
    let said = lines
        .iter()
        .map(|line| format!("echo $'$ {}'\n{line}\n", quoted(line)));
    let text: String = said.collect();
    format!(
        "set -eo pipefail\nset +o noclobber\n: | eval $'{}'\nexit 0\n",
        quoted(&text).replace('\n', "\\n")
    )
}

struct Runner<'a> {
    sandbox: &'a Sandbox,
    port: String,
}

impl Runner<'_> {
    /// One script. At its end the group gets what is left of it.
    fn play(&self, text: &str) -> Ended {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            self.sandbox.path("links").display()
        );
        let call = self
            .sandbox
            .real_call("bash")
            .arg("--login")
            .input(Input::Text(text.as_bytes().to_vec()))
            .env("PATH", path)
            .env("GITLAB_CI", "true")
            .env("CI_JOB_ID", "4711")
            .env("PORT", &self.port);
        let running = call.start();
        let group = running.pid();
        let ended = running.finish();
        group_kill(group);
        ended
    }
}

#[test]
fn the_example_runs_and_reports() {
    if !has("python3") {
        return;
    }
    for build in [0, 3] {
        let sandbox = Sandbox::new();
        project(&sandbox, build);
        // A login shell sets the PATH anew.
        let profile = format!("PATH={}:$PATH\n", sandbox.path("links").display());
        fs::write(sandbox.path("home/.bash_profile"), profile).unwrap();
        let file = example("gitlab-ci.yml");
        let (base, job) = (&file[".agent-sh"], &file["test"]);
        assert_eq!(job["extends"], ".agent-sh");
        let runner = Runner {
            sandbox: &sandbox,
            port: free_port(),
        };
        let ended = runner.play(&script(&[
            lines(base, "before_script"),
            lines(job, "script"),
        ]));
        // bash makes 1 of whatever ends the pipeline of the runner.
        let wanted = Status::Exited(i32::from(build != 0));
        assert_eq!(ended.status, wanted, "{ended:?}");
        let alive = || {
            let jobs = ps_json(&sandbox);
            assert!(
                jobs.iter().all(|job| job["session"] == "gitlab-4711"),
                "{jobs:#?}"
            );
            jobs.iter().filter(|job| job["state"] == "running").count()
        };
        assert_eq!(alive(), 1, "the group's end is not the server's");
        let after = runner.play(&script(&[lines(base, "after_script")]));
        assert!(after.succeeded(), "{after:?}");
        assert_eq!(alive(), 0);
        let report = base["artifacts"]["reports"]["junit"].as_str().unwrap();
        let found = elements(&sandbox, &sandbox.work().join(report));
        assert_eq!(found.contains(&"failure".to_owned()), build != 0);
        assert!(found.contains(&"skipped".to_owned()), "the server ran");
        sandbox.assert_no_survivors();
    }
}
