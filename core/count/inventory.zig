//! Pretokens and their counts, in memory.
//!
//! Three arrays, without an allocation per entry. Reading them is one pass. Their order is that of
//! the tables, unless the counter keeps the order of the text.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const Failure = @import("../failure.zig").Failure;

pub const Inventory = struct {
    /// The bytes of all pretokens.
    bytes: []u8,
    lengths: []u32,
    counts: []u64,

    pub fn init(gpa: Allocator, entries: usize, bytes_total: usize) Allocator.Error!Inventory {
        const bytes = try gpa.alloc(u8, bytes_total);
        errdefer gpa.free(bytes);
        const lengths = try gpa.alloc(u32, entries);
        errdefer gpa.free(lengths);
        const numbers = try gpa.alloc(u64, entries);
        inline for (.{ bytes, lengths, numbers }) |items| platform.memory.adviseHuge(items);
        return .{ .bytes = bytes, .lengths = lengths, .counts = numbers };
    }

    /// Copies pretokens that a caller counted. If they are rejected, the reason is in `failure`.
    pub fn of(
        gpa: Allocator,
        bytes: []const u8,
        lengths: []const u32,
        numbers: []const u64,
        failure: *Failure,
    ) error{ OutOfMemory, Rejected }!Inventory {
        var bytes_total: u64 = 0;
        for (lengths) |length| bytes_total += length;
        if (numbers.len != lengths.len) {
            const format = "{d} lengths and {d} counts are not the same entries";
            failure.* = .init(.input, format, .{ lengths.len, numbers.len });
            return error.Rejected;
        }
        if (bytes_total != bytes.len) {
            const format = "the lengths add up to {d} bytes, and there are {d}";
            failure.* = .init(.input, format, .{ bytes_total, bytes.len });
            return error.Rejected;
        }
        const self: Inventory = try .init(gpa, lengths.len, bytes.len);
        @memcpy(self.bytes, bytes);
        @memcpy(self.lengths, lengths);
        @memcpy(self.counts, numbers);
        return self;
    }

    pub fn deinit(self: *Inventory, gpa: Allocator) void {
        gpa.free(self.bytes);
        gpa.free(self.lengths);
        gpa.free(self.counts);
    }

    /// Returns the sum of all counts.
    pub fn total(self: *const Inventory) error{CountTooLarge}!u64 {
        var sum: u64 = 0;
        for (self.counts) |count| {
            sum = std.math.add(u64, sum, count) catch return error.CountTooLarge;
        }
        return sum;
    }

    pub fn source(self: *const Inventory) Source {
        return .{
            .inventory = self,
            .len = self.lengths.len,
            .bytes_total = self.bytes.len,
        };
    }

    /// Iterates over the entries.
    pub const Source = struct {
        inventory: *const Inventory,
        len: usize,
        bytes_total: usize,
        index: usize = 0,
        start: usize = 0,

        pub fn next(self: *Source) counts.Error!?counts.Entry {
            if (self.index == self.len) return null;
            const end = self.start + self.inventory.lengths[self.index];
            defer {
                self.start = end;
                self.index += 1;
            }
            return .{
                .bytes = self.inventory.bytes[self.start..end],
                .count = self.inventory.counts[self.index],
            };
        }
    };
};
