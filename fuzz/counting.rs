//! An allocator that counts what is live, for each thread by itself.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

/// A thread that wants more than this is stopped before it takes the machine with it.
const LIMIT: usize = 1 << 30;

pub(crate) struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn more(bytes: usize) {
    let live = LIVE.with(|live| {
        live.set(live.get().saturating_add(bytes));
        live.get()
    });
    PEAK.with(|peak| peak.set(peak.get().max(live)));
    if live > LIMIT {
        let words = b"more than a gibibyte is live\n";
        let _unheard = std::io::stderr().write_all(words);
        std::process::abort();
    }
}

fn less(bytes: usize) {
    // What another thread allocated may be freed here.
    LIVE.with(|live| live.set(live.get().saturating_sub(bytes)));
}

// SAFETY: every call goes to the system's allocator with the layout that came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller's promise about `layout` is the one that is asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        less(layout.size());
        // SAFETY: the block came from `System`, with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks count: where they cannot be the same one, the old is copied.
        more(size);
        less(layout.size());
        // SAFETY: the block came from `System`, with this layout.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// How much more was live at any moment of `work` than before it, and what it gave.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    (PEAK.with(Cell::get).saturating_sub(before), result)
}
