//! Memory for large tables: zeroed, and mapped on first access.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;

const alignment: std.mem.Alignment = .fromByteUnits(page_size);
/// Each allocation is a mapping of its own.
pub const pages = std.heap.page_allocator;
pub const page_size = std.heap.page_size_min;
const huge_page_size = 2 << 20;
const huge_alignment: std.mem.Alignment = .fromByteUnits(huge_page_size);

/// Maps zeroed memory. A regular `alloc` would fill it with another value in safe builds.
pub fn map(comptime T: type, count: usize) Allocator.Error![]align(page_size) T {
    const len = count * @sizeOf(T);
    // Memory of at least a huge page is aligned to one.
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

/// Requests pages of 2 MB, before the first access. Random access to a large table with small pages
/// would cause a TLB miss each time, and a large result would fault page by page. A failure is
/// ignored.
pub fn adviseHuge(memory: anytype) void {
    if (builtin.os.tag != .linux) return;
    const bytes = std.mem.sliceAsBytes(memory);
    const start = std.mem.alignForward(usize, @intFromPtr(bytes.ptr), page_size);
    const end = std.mem.alignBackward(usize, @intFromPtr(bytes.ptr) + bytes.len, page_size);
    if (end < start + huge_page_size) return;
    const inside: [*]align(page_size) u8 = @ptrFromInt(start);
    std.posix.madvise(inside, end - start, std.posix.MADV.HUGEPAGE) catch {};
}

/// Returns memory inside a mapping to the OS. It reads as zero when accessed again. On systems
/// other than Linux it stays until it is unmapped.
pub fn giveBack(memory: anytype) void {
    if (builtin.os.tag != .linux) return;
    const bytes = std.mem.sliceAsBytes(memory);
    const start = std.mem.alignForward(usize, @intFromPtr(bytes.ptr), page_size);
    const end = std.mem.alignBackward(usize, @intFromPtr(bytes.ptr) + bytes.len, page_size);
    if (end <= start) return;
    const inside: [*]align(page_size) u8 = @ptrFromInt(start);
    std.posix.madvise(inside, end - start, std.posix.MADV.DONTNEED) catch {};
}

/// Maps the pages of new memory by writing zeros. If they were read first, the OS would map a
/// shared zero page and have to unmap it in every thread at the first write. With two threads that
/// took as long as the work itself.
pub fn touch(memory: anytype) void {
    const bytes = std.mem.sliceAsBytes(memory);
    var index: usize = 0;
    while (index < bytes.len) : (index += page_size) {
        @as(*volatile u8, @ptrCast(&bytes[index])).* = 0;
    }
}
