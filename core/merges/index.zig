//! Pair → what belongs to it, where all words are gone through: an array where few tokens exist.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const queue = @import("queue.zig");

/// A number for each pair, while pairs are counted.
pub const Index = struct {
    pub const dense_width_max = 512;

    dense: []u32 = &.{},
    dense_width: u32 = 0,
    sparse: std.AutoHashMapUnmanaged(u64, u32) = .empty,

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

/// The owner and the slot of each pair that is kept.
pub const Places = struct {
    owners: []const Pairs,
    dense: []Place = &.{},
    width: u32 = 0,

    pub const Place = struct { owner: u32, slot: pairs_.Slot };
    const nowhere: Place = .{ .owner = 0, .slot = pairs_.no_slot };

    pub fn init(gpa: Allocator, owners: []const Pairs, ids_end: u32) Allocator.Error!Places {
        if (ids_end > Index.dense_width_max) return .{ .owners = owners };
        const dense = try gpa.alloc(Place, @as(usize, ids_end) * ids_end);
        @memset(dense, nowhere);
        for (owners, 0..) |*owner, number| for (owner.records.items, 0..) |record, slot| {
            if (record.isGone()) continue;
            const index = queue.leftOf(record.pair) * ids_end + queue.rightOf(record.pair);
            dense[index] = .{ .owner = @intCast(number), .slot = @intCast(slot) };
        };
        return .{ .owners = owners, .dense = dense, .width = ids_end };
    }

    pub fn deinit(self: *Places, gpa: Allocator) void {
        gpa.free(self.dense);
    }

    pub inline fn at(self: *const Places, left: u32, right: u32) ?Place {
        if (self.dense.len > 0) {
            const found = self.dense[left * self.width + right];
            return if (found.slot == pairs_.no_slot) null else found;
        }
        const pair = queue.pairOf(left, right);
        const owner = pairs_.ownerOf(pair, self.owners.len);
        const slot = self.owners[owner].find(pair) orelse return null;
        return .{ .owner = @intCast(owner), .slot = slot };
    }
};
