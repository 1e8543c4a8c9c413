//! A file → memory that the OS can page out: one mapping, which grows and shrinks.
//!
//! Disk blocks are allocated before they are mapped. A full disk is thus an error here, and never a
//! signal when the memory is written. Only on Linux; other systems do not use it.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;
const linux = std.os.linux;

pub const is_supported = builtin.os.tag == .linux;

pub const Error = error{ OutOfMemory, FileNotOpen };

pub const Spill = struct {
    file: i32,
    /// Whether there is a mapping. A second one would be of the same bytes of the file.
    is_mapped: bool = false,

    /// Duplicates the caller's file descriptor, which the caller may close. The file must not be
    /// used elsewhere.
    pub fn init(file: i32) Error!Spill {
        const rc = linux.fcntl(file, linux.F.DUPFD_CLOEXEC, 0);
        if (linux.errno(rc) != .SUCCESS) return error.FileNotOpen;
        return .{ .file = @intCast(rc) };
    }

    /// Must be called after all memory is unmapped.
    pub fn deinit(self: *Spill) void {
        _ = linux.close(self.file);
    }

    pub fn allocator(self: *Spill) Allocator {
        return .{ .ptr = self, .vtable = &.{
            .alloc = alloc,
            .resize = resize,
            .remap = remap,
            .free = free,
        } };
    }

    fn of(context: *anyopaque) *Spill {
        return @ptrCast(@alignCast(context));
    }

    fn alloc(context: *anyopaque, len: usize, _: Alignment, _: usize) ?[*]u8 {
        const self = of(context);
        if (self.is_mapped or !self.reserve(len)) return null;
        const memory = std.posix.mmap(
            null,
            len,
            .{ .READ = true, .WRITE = true },
            .{ .TYPE = .SHARED },
            self.file,
            0,
        ) catch return null;
        self.is_mapped = true;
        return memory.ptr;
    }

    fn reserve(self: *Spill, len: usize) bool {
        while (true) switch (linux.errno(linux.fallocate(self.file, 0, 0, @intCast(len)))) {
            .SUCCESS => return true,
            // Interrupted by a signal, so the call is repeated.
            .INTR => continue,
            else => return false,
        };
    }

    fn resize(context: *anyopaque, memory: []u8, _: Alignment, new_len: usize, _: usize) bool {
        if (new_len > memory.len) return false;
        const rc = linux.mremap(memory.ptr, memory.len, new_len, .{}, null);
        if (linux.errno(rc) != .SUCCESS) return false;
        _ = linux.ftruncate(of(context).file, @intCast(new_len));
        return true;
    }

    fn remap(
        context: *anyopaque,
        memory: []u8,
        alignment: Alignment,
        new_len: usize,
        address: usize,
    ) ?[*]u8 {
        if (new_len <= memory.len) {
            return if (resize(context, memory, alignment, new_len, address)) memory.ptr else null;
        }
        if (!of(context).reserve(new_len)) return null;
        const rc = linux.mremap(memory.ptr, memory.len, new_len, .{ .MAYMOVE = true }, null);
        return if (linux.errno(rc) == .SUCCESS) @ptrFromInt(rc) else null;
    }

    fn free(context: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        _ = linux.munmap(memory.ptr, memory.len);
        of(context).is_mapped = false;
    }

    /// Releases the pages of a mapping. The data stays in the file and is read from there again.
    pub fn release(memory: []u32) void {
        if (memory.len == 0 or !is_supported) return;
        const bytes = std.mem.sliceAsBytes(memory);
        _ = linux.madvise(bytes.ptr, bytes.len, linux.MADV.DONTNEED);
    }
};

/// Returns the descriptor of a file in memory. Tests use it.
pub fn openAnonymous() !i32 {
    return std.posix.memfd_create("spill", 0);
}

pub fn close(file: i32) void {
    _ = linux.close(file);
}

test "spill: written data survives growing, shrinking and release" {
    if (!is_supported) return;
    const file = try openAnonymous();
    defer close(file);
    var spill: Spill = try .init(file);
    defer spill.deinit();
    const gpa = spill.allocator();
    var list: std.ArrayList(u32) = .empty;
    defer list.deinit(gpa);
    for (0..100_000) |number| {
        try list.append(gpa, @intCast(number));
        if (number % 10_000 == 0) Spill.release(list.allocatedSlice());
    }
    try std.testing.expect(gpa.resize(list.allocatedSlice(), 60_000));
    list.capacity = 60_000;
    list.items.len = 50_000;
    try std.testing.expectError(error.OutOfMemory, gpa.alloc(u32, 10));
    Spill.release(list.allocatedSlice());
    for (list.items, 0..) |item, number| try std.testing.expectEqual(number, item);
}
