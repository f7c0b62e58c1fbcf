//! A file that is ours as a whole, known by how it begins.

use crate::harness::edit::Edit;

pub(crate) struct Whole {
    /// How it begins, in this version and in others.
    mark: &'static str,
    text: String,
}

impl Whole {
    pub(crate) fn new(mark: &'static str, text: String) -> Self {
        Self { mark, text }
    }
}

impl Edit for Whole {
    fn add(&self, text: &str) -> Result<String, String> {
        if text.is_empty() || text.starts_with(self.mark) {
            Ok(self.text.clone())
        } else {
            Err("a file that is not ours is there".to_owned())
        }
    }

    fn strip(&self, text: &str) -> Result<String, String> {
        let ours = text.starts_with(self.mark);
        Ok(if ours { String::new() } else { text.to_owned() })
    }

    fn is_blank(&self, text: &str) -> bool {
        text.is_empty()
    }
}
