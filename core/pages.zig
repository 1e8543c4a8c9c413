//! Memory for large tables: all zero, and not there before it is touched.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;

const alignment: std.mem.Alignment = .fromByteUnits(page_size);
const pages = std.heap.page_allocator;
pub const page_size = std.heap.page_size_min;
const huge_page_size = 2 << 20;
const huge_alignment: std.mem.Alignment = .fromByteUnits(huge_page_size);

/// What the system maps is zero; an `alloc` of it would be filled with something else in safe
/// builds.
pub fn map(comptime T: type, count: usize) Allocator.Error![]align(page_size) T {
    const len = count * @sizeOf(T);
    // Where it is as long as a huge page it begins with one.
    const at = if (len >= huge_page_size) huge_alignment else alignment;
    const bytes = pages.rawAlloc(len, at, @returnAddress()) orelse return error.OutOfMemory;
    const items: [*]align(page_size) T = @ptrCast(@alignCast(bytes));
    return items[0..count];
}

pub fn unmap(memory: anytype) void {
    const bytes: []align(page_size) u8 = @alignCast(std.mem.sliceAsBytes(memory));
    const at = if (bytes.len >= huge_page_size) huge_alignment else alignment;
    pages.rawFree(bytes, at, @returnAddress());
}

/// Asks for pages of two megabytes, before the first touch: where a table is used all over, small
/// pages would need a look-up of their own each time, and a large result is touched page by page.
/// A no is not a problem.
pub fn adviseHuge(memory: anytype) void {
    if (builtin.os.tag != .linux) return;
    const bytes = std.mem.sliceAsBytes(memory);
    const start = std.mem.alignForward(usize, @intFromPtr(bytes.ptr), page_size);
    const end = std.mem.alignBackward(usize, @intFromPtr(bytes.ptr) + bytes.len, page_size);
    if (end < start + huge_page_size) return;
    const inside: [*]align(page_size) u8 = @ptrFromInt(start);
    std.posix.madvise(inside, end - start, std.posix.MADV.HUGEPAGE) catch {};
}

/// Gives memory inside of a mapping back to the system: it is zero when it is touched again.
/// Elsewhere than on Linux it stays until it is unmapped.
pub fn giveBack(memory: anytype) void {
    if (builtin.os.tag != .linux) return;
    const bytes = std.mem.sliceAsBytes(memory);
    const start = std.mem.alignForward(usize, @intFromPtr(bytes.ptr), page_size);
    const end = std.mem.alignBackward(usize, @intFromPtr(bytes.ptr) + bytes.len, page_size);
    if (end <= start) return;
    const inside: [*]align(page_size) u8 = @ptrFromInt(start);
    std.posix.madvise(inside, end - start, std.posix.MADV.DONTNEED) catch {};
}

/// Makes the pages of fresh memory by writing zeros to them. If they are read first, the system
/// lends them a page of zeros, and at the first write takes that away from every thread: on two
/// threads that took as long as the work.
pub fn touch(memory: anytype) void {
    const bytes = std.mem.sliceAsBytes(memory);
    var index: usize = 0;
    while (index < bytes.len) : (index += page_size) {
        @as(*volatile u8, @ptrCast(&bytes[index])).* = 0;
    }
}
