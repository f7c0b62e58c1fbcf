//! Harnesses: their settings are changed and restored, their hooks told, with stand-ins for the clients. The
//! real ones are in `tests/clients`.

/// What each event of Gemini CLI gets.
mod gemini;
/// What each event of Claude Code gets, and who may say it.
mod hooks;
/// What a transcript says, and what is true.
mod reconcile;
/// `setup` and its `--undo`.
mod setup;
/// Wake-ups by HTTP.
mod wakes;
