//! What orders jobs and events: the ids that were given out, and the order in which readers saw events.

pub(super) mod ids;
pub(super) mod timeline;
