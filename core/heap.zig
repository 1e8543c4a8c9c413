//! Entries → the first of them in an order, one after the other.
//!
//! The heap is never searched: an outdated entry stays until it comes first, and the caller
//! recognizes it.

const std = @import("std");
const Allocator = std.mem.Allocator;

/// `order.isBefore(a, b)` defines the order. Entries of which neither is before the other come in
/// any order. A large heap needs fewer cache lines with four children per entry than with two.
pub fn Heap(comptime Entry: type, comptime Order: type, comptime children: usize) type {
    return struct {
        entries: std.ArrayList(Entry) = .empty,

        const Self = @This();

        pub fn deinit(self: *Self, gpa: Allocator) void {
            self.entries.deinit(gpa);
        }

        pub fn clear(self: *Self) void {
            self.entries.clearRetainingCapacity();
        }

        pub fn push(self: *Self, gpa: Allocator, order: Order, entry: Entry) Allocator.Error!void {
            try self.entries.append(gpa, entry);
            const entries = self.entries.items;
            var at = entries.len - 1;
            while (at > 0) {
                const parent = (at - 1) / children;
                if (!order.isBefore(entry, entries[parent])) break;
                entries[at] = entries[parent];
                at = parent;
            }
            entries[at] = entry;
        }

        pub fn first(self: *const Self) ?Entry {
            return if (self.entries.items.len == 0) null else self.entries.items[0];
        }

        /// Removes the first entry and returns it.
        pub fn pop(self: *Self, order: Order) ?Entry {
            const found = self.first() orelse return null;
            const last = self.entries.pop().?;
            if (self.entries.items.len > 0) self.replace(order, last);
            return found;
        }

        /// Replaces the first entry by one that is not before it.
        pub fn replace(self: *Self, order: Order, entry: Entry) void {
            const entries = self.entries.items;
            var at: usize = 0;
            while (at * children + 1 < entries.len) {
                const start = at * children + 1;
                var child = start;
                inline for (1..children) |step| {
                    const other = start + step;
                    const is_there = other < entries.len;
                    if (is_there and order.isBefore(entries[other], entries[child])) child = other;
                }
                if (!order.isBefore(entries[child], entry)) break;
                entries[at] = entries[child];
                at = child;
            }
            entries[at] = entry;
        }
    };
}

/// Numbers, the smallest first.
pub const Numbers = Heap(u64, struct {
    pub inline fn isBefore(_: @This(), a: u64, b: u64) bool {
        return a < b;
    }
}, 2);

test "heap: entries come in order, also after the first ones are replaced" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var heap: Numbers = .{};
    defer heap.deinit(gpa);
    for (0..20) |count| {
        for (0..count * count) |_| try heap.push(gpa, .{}, random.uintLessThan(u64, 100));
        for (0..count) |_| heap.replace(.{}, heap.first().? + random.uintLessThan(u64, 50));
        var before: u64 = 0;
        for (0..count * count) |_| {
            const now = heap.pop(.{}).?;
            try std.testing.expect(now >= before);
            before = now;
        }
        try std.testing.expectEqual(null, heap.pop(.{}));
    }
}
