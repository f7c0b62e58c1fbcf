//! The words of a record that come from a fixed list: who asked for an end, who saw it, how it was seen,
//! and what did not work as it should.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Makes an enum whose values are words in a record. A word of another version is kept as it is.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[cfg_attr(test, schemars(with = "String"))]
        #[serde(from = "Cow<'_, str>", into = "String")]
        pub enum $name {
            $($(#[$what])* $variant,)*
            /// What only another version knows, or a text of its own.
            Other(String),
        }

        impl $name {
            #[must_use]
            pub fn word(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<Cow<'_, str>> for $name {
            fn from(word: Cow<'_, str>) -> Self {
                match &*word {
                    $($word => Self::$variant,)*
                    _ => Self::Other(word.into_owned()),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.word().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }

        #[cfg(test)]
        impl $name {
            const ALL: &[Self] = &[$(Self::$variant,)*];
        }
    };
}

words! {
    /// Who or what asked for the end of a job.
    KillCause {
        /// A person, with `agent-sh kill`.
        User = "user",
        /// An agent, from within its session.
        Agent = "agent",
        /// The harness: its hook said that the session is over, or it signalled the command.
        Harness = "harness",
        Timeout = "timeout",
        IdleTimeout = "idle-timeout",
        CpuTime = "cpu-time",
        Memory = "memory",
        /// The container stops, or its command has ended.
        Drain = "drain",
        FrontDied = "front-died",
    }
}

words! {
    /// Who saw the end of a job.
    Observer {
        Supervisor = "supervisor",
        /// A `wait` that held on to the process after its supervisor had died.
        Waiter = "waiter",
        /// Whoever looked at the job when nobody could state its end any more.
        Reconciler = "reconciler",
    }
}

words! {
    /// How an end was seen.
    Evidence {
        /// It was our child.
        WaitId = "waitid",
        PidfdInfo = "pidfd-info",
        /// A zombie's `/proc/PID/stat`.
        ProcStat = "proc-stat",
        /// The supervisor had room for a file's name alone.
        FileName = "file-name",
        None = "none",
    }
}

words! {
    /// What of a job does not work as it should, and why.
    Degraded {
        /// Its supervisor is gone, and it lives.
        Unsupervised = "unsupervised",
        /// There is no `/proc` of ours to see processes by.
        NoProc = "no-proc",
        NoPty = "no-pty",
        /// There was no descriptor left to capture its output with.
        NoCapture = "no-capture",
        NoSubreaper = "no-subreaper",
        /// The file system has no locks.
        NoLease = "no-lease",
        /// Its files are of a newer version.
        NewerFormat = "newer-format",
        /// Its end could not be written.
        Unrecorded = "unrecorded",
        LaunchUnreadable = "launch-unreadable",
        /// It belongs to another machine or another copy of the store.
        Foreign = "foreign",
    }
}

impl KillCause {
    /// Of a verb: whoever calls from within a session is its agent.
    #[must_use]
    pub fn of_verb(in_session: bool) -> Self {
        if in_session { Self::Agent } else { Self::User }
    }
}

impl Degraded {
    /// Several, as one text.
    #[must_use]
    pub fn join(all: &[Self], between: &str) -> String {
        let words: Vec<&str> = all.iter().map(Self::word).collect();
        words.join(between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        fn check<T>(all: &[T], other: &T)
        where
            T: Serialize + for<'de> Deserialize<'de> + PartialEq + fmt::Debug + fmt::Display,
        {
            for value in all.iter().chain([other]) {
                let json = serde_json::to_value(value).unwrap();
                assert_eq!(json, value.to_string());
                assert_eq!(&serde_json::from_value::<T>(json).unwrap(), value);
            }
        }
        let text = || "of another version".to_owned();
        check(KillCause::ALL, &KillCause::Other(text()));
        check(Observer::ALL, &Observer::Other(text()));
        check(Evidence::ALL, &Evidence::Other(text()));
        check(Degraded::ALL, &Degraded::Other(text()));
    }
}
