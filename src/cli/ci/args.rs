//! The words of `ci`: what a build tells of its background jobs.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Report the background jobs of a CI job
#[derive(Debug, Args)]
#[command(after_help = "\
In GitHub Actions, GitLab CI and Buildkite all steps of one CI job share a session, so a later step reports the jobs that \
earlier steps started.

Example:
  agent-sh ci report --annotations

Exit codes: 0 success, 1 by the policy of --fail-on, 2 wrong usage, 125 a file cannot be written, or agent-sh failed.")]
pub(crate) struct Ci {
    #[command(subcommand)]
    pub what: CiWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CiWhat {
    Report(CiReport),
}

/// Report failed and running jobs as Markdown, JUnit XML or annotations
#[derive(Debug, Args)]
#[command(after_help = "\
Reports the jobs of the caller's session, all jobs if the caller has none. A job has failed if it did not exit with 0: \
after a signal, and when it is lost, too. Without --summary the Markdown is appended to the file that $GITHUB_STEP_SUMMARY \
names; if that is not set and no other output was asked for, it goes to stdout. A FILE of '-' is stdout.

Example:
  agent-sh ci report --annotations                       a last step in GitHub Actions
  agent-sh ci report --junit report.xml --fail-on any    also fail if a job still runs
  agent-sh ci report --summary - --session gitlab-4711

Exit codes: 0 success, 1 a job failed or still runs and --fail-on says that this matters, 2 wrong usage, 125 a file cannot \
be written, or agent-sh failed.")]
pub(crate) struct CiReport {
    /// Append Markdown to this file [default: $GITHUB_STEP_SUMMARY]
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Write JUnit XML to this file, replacing it
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Print '::error::' and '::warning::' lines for GitHub Actions
    #[arg(long)]
    pub annotations: bool,
    /// When to exit with 1: a job failed, a job still runs, either, or never
    #[arg(long, value_name = "WHEN", default_value = "failed")]
    pub fail_on: FailOn,
    /// The session to report [default: the caller's]
    #[arg(long, value_name = "KEY")]
    pub session: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    Failed,
    Running,
    Any,
    None,
}

impl FailOn {
    /// Whether a job that still runs is a failure.
    pub(super) fn counts_running(self) -> bool {
        matches!(self, Self::Running | Self::Any)
    }

    /// Whether a job that did not exit with 0 is a failure.
    pub(super) fn counts_failed(self) -> bool {
        matches!(self, Self::Failed | Self::Any)
    }
}
