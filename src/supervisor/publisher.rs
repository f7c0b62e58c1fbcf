//! The supervisor's way to the store: opened at the first job, and never a reason for a command to
//! fail. When nothing can be stored, jobs live on in memory alone and the announcement says so.

use std::cell::{Cell, OnceCell};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::caller;
use crate::error::Result;
use crate::job::record::{self, CommandText, JobFacts, ProcIdentity};
use crate::job::{Degraded, How};
use crate::settings::Settings;
use crate::store::{self, Closed, Draft, LiveJob, Prepared, Store};
use crate::sys::process::Usage;
use crate::sys::{clock, proc};
use crate::wire::{Address, RunJob, Work};

pub(super) struct Publisher {
    /// `Some` once it could be opened.
    store: Option<Store>,
    /// Why the last job could not be stored. The next one may find a free descriptor, or room.
    refusal: Option<String>,
    /// Places that could be opened, and then not be written.
    closed: Vec<Closed>,
    settings: Settings,
    caller: i32,
    degraded: Vec<Degraded>,
    /// Where requests about the jobs are taken.
    control: String,
    /// On whose behalf: the session and the harness, once asked for.
    asked: OnceCell<(Option<String>, Option<String>)>,
    /// A place for the next job, made ahead of it.
    prepared: Option<Prepared>,
    /// When the next job started, if its process does not say.
    started: Option<(SystemTime, Duration)>,
    /// The wall clock at boot, asked once: jobs that started together must not be told apart by it.
    boot: OnceCell<Option<SystemTime>>,
    /// When this supervisor began, since boot.
    begun: Duration,
}

/// Who a process is and where it works.
pub(super) type Identity = (ProcIdentity, PathBuf);

/// What is known of a job when it becomes one.
pub(super) struct Start<'a> {
    pub(super) how: How,
    pub(super) pid: i32,
    pub(super) text: &'a [u8],
    pub(super) tty: bool,
    pub(super) redirected_to: Option<String>,
    pub(super) redirected_stderr: Option<String>,
    /// The transcript it shares with another job.
    pub(super) transcript: Option<String>,
    pub(super) degraded: Vec<Degraded>,
    pub(super) run: Option<&'a RunJob>,
    /// Who it was, if it has ended already.
    pub(super) was: Option<Identity>,
}

impl<'a> Start<'a> {
    /// A process that nothing else is known of.
    pub(super) fn new(how: How, pid: i32, text: &'a [u8]) -> Self {
        Self {
            how,
            pid,
            text,
            tty: false,
            redirected_to: None,
            redirected_stderr: None,
            transcript: None,
            degraded: Vec::new(),
            run: None,
            was: None,
        }
    }
}

/// What a process used, as a record says it.
pub(super) fn usage(used: Usage) -> record::Usage {
    record::Usage {
        user_ms: used.user_ms,
        sys_ms: used.sys_ms,
        max_rss_kib: used.max_rss_kib,
    }
}

impl Publisher {
    pub(super) fn new(work: &Work, degraded: Vec<Degraded>, address: Address) -> Self {
        Self {
            store: None,
            refusal: None,
            closed: Vec::new(),
            settings: work.settings.clone(),
            caller: work.caller,
            degraded,
            control: address.to_text(),
            asked: OnceCell::new(),
            prepared: None,
            started: None,
            boot: OnceCell::new(),
            begun: clock::boottime(),
        }
    }

    /// When a process started. Jobs come to register in any order; they are listed as they started.
    fn started(&self, starttime: u64) -> Option<(SystemTime, Duration)> {
        let boot = self
            .boot
            .get_or_init(|| clock::wall().checked_sub(clock::boottime()));
        // The kernel says it to a hundredth of a second; nothing of ours began before we did.
        let since = proc::since_boot(starttime).filter(|_| starttime > 0)?;
        let since = since.max(self.begun);
        Some(((*boot)?.checked_add(since)?, since))
    }

    /// Why nothing can be stored, if that was so when it was last tried.
    pub(super) fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The store, if a job has opened it.
    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    fn open(&mut self) -> Option<&Store> {
        if self.store.is_none() {
            let env = |name: &str| std::env::var_os(name);
            match Store::open_but(&self.settings, env, &self.closed) {
                Ok(store) => self.store = Some(store),
                Err(error) => self.refusal = Some(error.to_string()),
            }
        }
        self.store.as_ref()
    }

    /// Has the store make something. Where it turns out that nothing can be made in its place, the next
    /// place is tried: a home that is read-only in a sandbox holds the jobs of those outside, not ours.
    fn make<T>(&mut self, make: impl Fn(&Self, &Store) -> Result<T>) -> Option<T> {
        loop {
            self.open()?;
            let store = self.store.take()?;
            match make(self, &store) {
                Ok(made) => {
                    self.store = Some(store);
                    self.refusal = None;
                    return Some(made);
                }
                Err(error) => {
                    self.refusal = Some(error.to_string());
                    // Opened anew for the next job: it may have been moved away.
                    self.closed.push(store.closed_by(&error)?);
                }
            }
        }
    }

    /// Does ahead of a job what does not depend on it.
    pub(super) fn prepare(&mut self) {
        self.prepared = self.make(|_, store| store.prepare());
        self.on_behalf();
        let _ = store::own_identity();
    }

    /// Gives back a place that was prepared and not used; with `leave_spare`, leaves one for the next
    /// call in any case.
    pub(super) fn tidy(&mut self, leave_spare: bool) {
        if let Some(store) = &self.store {
            match self.prepared.take() {
                Some(prepared) => store.give_back(&prepared),
                None if leave_spare => store.leave_spare(),
                None => {}
            }
        }
    }

    /// Removes what is no longer kept, now and then. The last thing a supervisor of jobs does: nobody
    /// waits for it any more.
    pub(super) fn collect_garbage(&self) {
        if let Some(store) = &self.store {
            store.collect_if_due(&self.settings);
        }
    }

    /// The session and the harness.
    fn on_behalf(&self) -> &(Option<String>, Option<String>) {
        self.asked.get_or_init(|| {
            caller::on_behalf(&self.settings, |name| std::env::var_os(name), self.caller)
        })
    }

    /// Publishes a job; `None` when nothing can be stored.
    pub(super) fn publish(&mut self, start: &Start<'_>) -> Option<LiveJob> {
        let prepared = Cell::new(self.prepared.take());
        self.make(|publisher, store| match prepared.take() {
            Some(prepared) => store.create_prepared(prepared, publisher.draft(start, store)),
            None => store.create_job(publisher.draft(start, store)),
        })
    }

    /// The same for a process that started a while ago (in boot time).
    pub(super) fn publish_since(&mut self, start: &Start<'_>, since: Duration) -> Option<LiveJob> {
        let ago = clock::boottime().saturating_sub(since);
        self.started = clock::wall().checked_sub(ago).map(|wall| (wall, since));
        let live = self.publish(start);
        self.started = None;
        live
    }

    fn draft(&self, start: &Start<'_>, store: &Store) -> Draft {
        let was = start.was.clone();
        let asked = start.run.and_then(|run| run.cwd.clone());
        let asked = asked.or_else(|| was.as_ref().map(|(_, cwd)| cwd.clone()));
        let cwd = asked.unwrap_or_else(|| proc::link(start.pid, "cwd").unwrap_or_default());
        let identity = was
            .map(|(identity, _)| identity)
            .or_else(|| store::identity(start.pid))
            .unwrap_or_else(|| store::identity_with(start.pid, 0));
        let mut degraded = self.degraded.clone();
        if !proc::is_ours() {
            degraded.push(Degraded::NoProc);
        }
        degraded.extend(start.degraded.iter().cloned());
        let session = start
            .run
            .and_then(|run| run.session.clone())
            .or_else(|| self.on_behalf().0.clone());
        let command = CommandText::new(start.text, self.settings.record_command, |text| {
            store.own().hash(text)
        });
        Draft {
            started: self.started.or_else(|| self.started(identity.starttime)),
            facts: JobFacts {
                command,
                how: start.how,
                session,
                harness: self.on_behalf().1.clone(),
                cwd: String::from_utf8_lossy(&cwd.into_os_string().into_vec()).into_owned(),
                name: start.run.and_then(|run| run.name.clone()),
                started_at: String::new(),
                proc: identity,
                tty: start.tty,
                redirected_to: start.redirected_to.clone(),
                redirected_stderr: start.redirected_stderr.clone(),
                degraded,
                ignored_settings: self.settings.ignored.clone(),
            },
            transcript: start.transcript.clone(),
            transcript_cap: self.settings.transcript_cap,
            control: proc::is_ours().then(|| self.control.clone()),
            interactive: start.run.is_some_and(|run| run.interactive),
            caller: self.caller_id(),
            wake: caller::wake(|name| std::env::var_os(name), self.caller),
        }
    }

    /// The process that made the call, where no session stands for it.
    fn caller_id(&self) -> Option<String> {
        let is_needed = self.on_behalf().0.is_none();
        let stat = proc::stat(self.caller).filter(|stat| is_needed && stat.pid > 1)?;
        Some(format!("{}.{}", stat.pid, stat.starttime))
    }
}
