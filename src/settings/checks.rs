//! What only the machine, or another room, can judge of a value. Handed in, so that settings stay pure.

use std::path::Path;

/// Each gives the reason why a value cannot be used.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    pub shell: &'a dyn Fn(&Path) -> Result<(), String>,
    pub sink: &'a dyn Fn(&str) -> Result<(), String>,
}

impl Checks<'_> {
    /// Everything of the right form is taken.
    pub const NONE: Checks<'static> = Checks {
        shell: &|_| Ok(()),
        sink: &|_| Ok(()),
    };

    /// The sinks in these lists that can be used, and why the first of the others cannot.
    pub(super) fn sinks(&self, lists: &[String]) -> (Vec<String>, Option<String>) {
        let (mut good, mut bad) = (Vec::new(), None);
        let listed = lists
            .iter()
            .flat_map(|list| list.split([',', ' ', '\t', '\n']))
            .filter(|sink| !sink.is_empty());
        for sink in listed {
            match (self.sink)(sink) {
                Ok(()) => good.push(sink.to_owned()),
                Err(why) => bad = bad.or(Some(why)),
            }
        }
        (good, bad)
    }
}
