//! The ids of texts, in order, or only their number. The ids are ranks, until a caller publishes
//! them (vocabulary.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const cache = @import("../cache.zig");
const platform = @import("../platform.zig");
const Goal = cache.Goal;

pub const List = struct {
    gpa: Allocator,
    ids: std.ArrayList(u32) = .empty,
    /// Whether only the number of ids is needed. Then `ids` contains only those of the last batch.
    only_counts: bool = false,
    /// Number of ids that were in the list before.
    dropped: usize = 0,

    /// Number of ids that a list of fixed capacity needs in addition to one per byte.
    pub const room_extra = cache.room_extra;

    pub fn deinit(self: *List) void {
        self.ids.deinit(self.gpa);
    }

    pub fn total(self: *const List) usize {
        return self.dropped + self.ids.items.len;
    }

    pub fn reset(self: *List) void {
        self.ids.clearRetainingCapacity();
        self.dropped = 0;
    }

    pub inline fn goal(self: *const List) Goal {
        return if (self.only_counts) .number else .ids;
    }

    /// Adds ids that were written to the memory of `roomFor`, or only their number.
    pub inline fn add(self: *List, count: usize) void {
        if (self.only_counts) {
            self.dropped += count;
            return;
        }
        const room = self.ids.capacity - self.ids.items.len;
        platform.check(count <= room, "the ids fit in the memory of roomFor");
        self.ids.items.len += count;
    }

    pub inline fn push(self: *List, ids: []const u32) Allocator.Error!void {
        const out = try self.roomFor(ids.len);
        @memcpy(out, ids);
        self.ids.items.len += ids.len;
    }

    /// Returns the memory after the last id, with capacity for `count` more.
    pub inline fn roomFor(self: *List, count: usize) Allocator.Error![*]u32 {
        if (self.only_counts) {
            self.dropped += self.ids.items.len;
            self.ids.clearRetainingCapacity();
            // The ids are only counted, so they are freed and not copied.
            if (count > self.ids.capacity) self.ids.clearAndFree(self.gpa);
        }
        try self.ids.ensureUnusedCapacity(self.gpa, count);
        return self.ids.items.ptr + self.ids.items.len;
    }
};
