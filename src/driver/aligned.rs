//! Host memory from the allocator, aligned as vector units want it, of which nothing is touched before it is used.
#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    fmt,
    ops::{Deref, DerefMut},
    ptr::NonNull,
};

/// How a kernel's arguments are aligned, as [`Arg`](crate::driver::Arg) promises.
pub(in crate::driver) const ALIGN: usize = 64;

/// An owned run of bytes, aligned for any element type.
pub struct Aligned {
    /// The allocator gave `len + ALIGN` bytes at any address. Asked for aligned ones, it would touch every
    /// page to make them zero, though they come so from the system.
    given: Given,
    start: NonNull<u8>,
    len: usize,
}

/// Where the bytes came from.
enum Given {
    Allocator(NonNull<u8>),
    /// Another owner, who is told when they are not needed any more.
    #[cfg_attr(not(target_vendor = "apple"), allow(dead_code, reason = "Metal's memory is such"))]
    Lent(Option<Box<dyn FnOnce() + Send + Sync>>),
}

// SAFETY: the bytes are owned by this value alone, as a `Vec`'s are.
unsafe impl Send for Aligned {}
// SAFETY: shared access only reads.
unsafe impl Sync for Aligned {}

impl Aligned {
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(ALIGN)?, 1).ok()
    }

    /// Zeroes, of which the system makes each page when it is touched; none if it refuses so many.
    pub(in crate::driver) fn zeroed(len: usize) -> Option<Aligned> {
        let layout = Aligned::layout(len)?;
        // SAFETY: the layout's size is above zero.
        let given = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        // SAFETY: the next aligned address is less than `ALIGN` bytes on, and that many were asked for besides.
        let start = unsafe { given.add(given.align_offset(ALIGN)) };
        Some(Aligned { given: Given::Allocator(given), start, len })
    }

    /// Bytes that are another's, who is told by `release` when they are not needed any more.
    ///
    /// # Safety
    ///
    /// `start` has `len` initialised bytes, aligned as promised, that nobody else touches until `release` is called.
    #[cfg(target_vendor = "apple")]
    pub(in crate::driver) unsafe fn lent(
        start: NonNull<u8>,
        len: usize,
        release: impl FnOnce() + Send + Sync + 'static,
    ) -> Aligned {
        Aligned { given: Given::Lent(Some(Box::new(release))), start, len }
    }

    /// Where the bytes start.
    pub(in crate::driver) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aligned").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` has `len` initialised bytes, owned by this value and borrowed with it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        match (&mut self.given, Aligned::layout(self.len)) {
            // SAFETY: the bytes came from the allocator with this very layout and are freed once.
            (Given::Allocator(given), Some(layout)) => unsafe { dealloc(given.as_ptr(), layout) },
            (Given::Allocator(_), None) => {}
            (Given::Lent(release), _) => {
                if let Some(release) = release.take() {
                    release();
                }
            }
        }
    }
}
