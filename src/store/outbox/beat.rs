//! Which running jobs a subscriber hears of, and who says that they live.

use std::fs::File;

use super::Subscription;
use crate::error::Result;
use crate::job::How;
use crate::store::{JobView, Store, running_jobs};
use crate::sys::{fsx, lock};

impl Store {
    /// The right to send signs of life to a subscriber. `None`: somebody else does. It goes with the file.
    #[must_use]
    pub fn hold_beat(&self, name: &str) -> Option<File> {
        let dir = self.sub_dir(name).ok()?;
        let file = fsx::open_append_at(&dir, "beat").ok()?;
        lock::try_write(&file).ok()?.then_some(file)
    }

    /// The running jobs that a subscriber is to know of.
    pub fn reported(&self, sub: &Subscription) -> Result<Vec<JobView>> {
        let marks = self.marks(&sub.name)?;
        let mut jobs = running_jobs(std::slice::from_ref(self))?;
        jobs.retain(|job| {
            let covered = sub.standing && sub.covers(job.launch.facts.session.as_deref());
            let is_job = job.launch_known && job.launch.facts.how != How::Foreground;
            is_job && (covered || marks.wants(job.id()))
        });
        Ok(jobs)
    }
}
