//! Memory for large tables: all zero, and not there before it is touched.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;

const alignment: std.mem.Alignment = .fromByteUnits(page_size);
const pages = std.heap.page_allocator;
pub const page_size = std.heap.page_size_min;

/// What the system maps is zero; an `alloc` of it would be filled with something else in safe
/// builds.
pub fn map(comptime T: type, count: usize) Allocator.Error![]align(page_size) T {
    const bytes = pages.rawAlloc(count * @sizeOf(T), alignment, @returnAddress()) orelse
        return error.OutOfMemory;
    const items: [*]align(page_size) T = @ptrCast(@alignCast(bytes));
    return items[0..count];
}

pub fn unmap(memory: anytype) void {
    const bytes: []align(page_size) u8 = @alignCast(std.mem.sliceAsBytes(memory));
    pages.rawFree(bytes, alignment, @returnAddress());
}

/// Asks for pages of two megabytes, before the first touch. For a table that is used all over,
/// where small pages would need a look-up of their own each time; a no is not a problem.
pub fn adviseHuge(memory: anytype) void {
    const bytes: []align(page_size) u8 = @alignCast(std.mem.sliceAsBytes(memory));
    if (builtin.os.tag != .linux or bytes.len < 4 << 20) return;
    std.posix.madvise(bytes.ptr, bytes.len, std.posix.MADV.HUGEPAGE) catch {};
}
