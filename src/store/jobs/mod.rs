//! The directory of one job: made (`create`), filled by its supervisor (`live`), read by everybody else
//! (`view`, `summary`, `list`, `find`), and judged when nobody can state its end (`reconcile`).

pub(super) mod byname;
pub(super) mod create;
pub(super) mod files;
pub(super) mod find;
pub(super) mod list;
pub(super) mod live;
pub(super) mod reconcile;
pub(super) mod summary;
pub(super) mod view;
