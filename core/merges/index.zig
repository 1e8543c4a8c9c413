//! Pair → a number, for as long as all pairs are counted: an array where few tokens exist.

const std = @import("std");
const Allocator = std.mem.Allocator;
const queue = @import("queue.zig");

pub const Index = struct {
    dense: []u32 = &.{},
    dense_width: u32 = 0,
    sparse: std.AutoHashMapUnmanaged(u64, u32) = .empty,

    const dense_width_max = 512;
    /// The number of a pair that was never asked for.
    pub const none = std.math.maxInt(u32);

    /// `ids_end` is above all ids in the words.
    pub fn init(gpa: Allocator, ids_end: u32) Allocator.Error!Index {
        if (ids_end > dense_width_max) return .{};
        const dense = try gpa.alloc(u32, @as(usize, ids_end) * ids_end);
        @memset(dense, none);
        return .{ .dense = dense, .dense_width = ids_end };
    }

    pub fn deinit(self: *Index, gpa: Allocator) void {
        gpa.free(self.dense);
        self.sparse.deinit(gpa);
    }

    pub inline fn at(self: *Index, gpa: Allocator, left: u32, right: u32) Allocator.Error!*u32 {
        if (self.dense.len > 0) return &self.dense[left * self.dense_width + right];
        const found = try self.sparse.getOrPut(gpa, queue.pairOf(left, right));
        if (!found.found_existing) found.value_ptr.* = none;
        return found.value_ptr;
    }
};
