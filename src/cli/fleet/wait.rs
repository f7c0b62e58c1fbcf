//! `wait --from`: until jobs of other machines have ended.

use std::time::{Duration, Instant};

use super::group;
use crate::cli::wait::{TIMED_OUT, Wait, overall};
use crate::error::{Error, Result};
use crate::fleet::job::{Job, Jobs};
use crate::fleet::{Extent, failed};
use crate::message;
use crate::notify::beat::LIFETIME;
use crate::sys::clock;
use crate::text::short_duration;

const PULL: Duration = Duration::from_secs(5);

pub(crate) fn wait(wait: &Wait) -> Result<u8> {
    if wait.delivery.follow {
        return group::follow(wait);
    }
    if wait.has_condition() {
        return Err(Error::Usage {
            text: "a stream holds starts and ends: --for-output, --for-port and --idle need the job's own machine".to_owned(),
            hint: None,
        });
    }
    let deadline = wait.timeout.map(|time| Instant::now() + time);
    let mut source = wait.fleet().open(Extent::Latest)?;
    let mut jobs = Jobs::default();
    jobs.take(source.read(None).map_err(failed)?);
    let wanted = chosen(&jobs, wait)?;
    if wanted.is_empty() {
        message::say("nothing to wait for: no job is running");
        return Ok(0);
    }
    let mut codes: Vec<Option<u8>> = vec![None; wanted.len()];
    loop {
        let now = clock::wall();
        for (place, key) in wanted
            .iter()
            .enumerate()
            .filter(|(place, _)| codes[*place].is_none())
            .collect::<Vec<_>>()
        {
            let job = jobs.find(key).map_err(failed)?;
            let Some(code) = job.code(now) else { continue };
            tell(job, wait.json)?;
            codes[place] = Some(code);
            if wait.any {
                return Ok(code);
            }
        }
        if codes.iter().all(Option::is_some) {
            return Ok(overall(codes.into_iter().flatten()));
        }
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let count = codes.iter().filter(|code| code.is_none()).count();
            let after = wait.timeout.map(short_duration).unwrap_or_default();
            message::say(format!(
                "{count} of these jobs still run after {after} of waiting"
            ));
            return Ok(TIMED_OUT);
        }
        // A machine that falls silent sends nothing that would wake us.
        let silent = wanted
            .iter()
            .filter_map(|key| jobs.find(key).ok()?.silent_for(now))
            .max();
        let lost_in = silent.map_or(PULL, |silent| {
            (LIFETIME + Duration::from_millis(50)).saturating_sub(silent)
        });
        let pause = left
            .unwrap_or(PULL)
            .min(PULL)
            .min(lost_in.max(Duration::from_millis(50)));
        jobs.take(source.read(Some(pause)).map_err(failed)?);
    }
}

/// The jobs that are meant, each as `MACHINE/ID`. Without ids: all that run, in the session if one is given.
fn chosen(jobs: &Jobs, wait: &Wait) -> Result<Vec<String>> {
    let key = |job: &Job| format!("{}/{}", job.machine, job.id);
    if wait.jobs.is_empty() {
        let session = wait.delivery.session.as_deref();
        let mut running = jobs.list();
        running.retain(|job| {
            job.exit.is_none() && (session.is_none() || job.text("session") == session)
        });
        return Ok(running.into_iter().map(key).collect());
    }
    let mut found: Vec<String> = Vec::new();
    for word in &wait.jobs {
        let key = key(jobs.find(word).map_err(failed)?);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    Ok(found)
}

fn tell(job: &Job, json: bool) -> Result<()> {
    let now = clock::wall();
    match json {
        true => message::out_json(&job.facts(now)),
        false => message::out(&format!("{}\n", job.sentence(now))),
    }
}
