//! What `fuzz/` and `tests/` call: the entry points that take bytes of others, and what makes jobs without
//! processes. Not an interface for anybody else; it changes without notice.

pub use crate::job::notice;
pub use crate::job::record::{
    CommandText, ExitFacts, Parsed, parse_launch, parse_record, parse_summary, started_event,
};
pub use crate::job::{Evidence, How, JobId, Observer, Outcome};
pub use crate::notify::{Sink, start};
pub use crate::plan::asked::Asked;
pub use crate::plan::{Plan, plan};
pub use crate::rewrite::{original, rewrite, shown};
pub use crate::screen::{Clean, Newlines, Screen, clean_tail};
pub use crate::settings::{
    Checks, RecordCommand, SETTINGS, Settings, duration, nearest, size, unknown_variables,
};
pub use crate::store::{Draft, Store, identity, moment};
pub use crate::syntax::{Dialect, Script, scan};
pub use crate::text::{
    escape_json, quote, redact, replace_misleading, sanitize, sanitize_line, shorten,
};
pub use crate::wire::control::{Ask, Size, What};
pub use crate::wire::{Address, Register, Registered, Request};
