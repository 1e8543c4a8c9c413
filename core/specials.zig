//! Text → specials: where the next special stands, leftmost and then longest.
//!
//! The names are kept sorted, so those that share a prefix are a range; a candidate is narrowed
//! down byte by byte with two binary searches. Nearly all text is passed over by a search for
//! the first bytes of the names, so hundreds of specials cost nothing where there are none.

const std = @import("std");
const Allocator = std.mem.Allocator;

pub const Found = struct { start: usize, end: usize, id: u32 };

pub const Specials = struct {
    /// Sorted names, end to end, and their ids.
    bytes: []const u8,
    ends: []const u32,
    ids: []const u32,
    first_bytes: std.StaticBitSet(256),
    /// Set when all names begin with one byte: then the search is a plain byte search.
    only_first_byte: ?u8,
    /// Bytes of the longest name.
    len_max: usize,

    /// `names` are sorted, distinct and not empty; `lengths` cuts them. All are copied.
    pub fn init(
        gpa: Allocator,
        names: []const u8,
        lengths: []const u32,
        ids: []const u32,
    ) Allocator.Error!Specials {
        const bytes = try gpa.dupe(u8, names);
        errdefer gpa.free(bytes);
        const ends = try gpa.dupe(u32, lengths);
        errdefer gpa.free(ends);
        var first_bytes: std.StaticBitSet(256) = .initEmpty();
        var end: u32 = 0;
        var len_max: usize = 0;
        for (ends) |*length| {
            len_max = @max(len_max, length.*);
            first_bytes.set(names[end]);
            end += length.*;
            length.* = end;
        }
        return .{
            .bytes = bytes,
            .ends = ends,
            .ids = try gpa.dupe(u32, ids),
            .first_bytes = first_bytes,
            .only_first_byte = if (first_bytes.count() == 1) names[0] else null,
            .len_max = len_max,
        };
    }

    pub fn deinit(self: *Specials, gpa: Allocator) void {
        gpa.free(self.bytes);
        gpa.free(self.ends);
        gpa.free(self.ids);
        self.* = undefined;
    }

    pub fn name(self: *const Specials, index: usize) []const u8 {
        return self.bytes[if (index == 0) 0 else self.ends[index - 1]..self.ends[index]];
    }

    /// The name of an id, if it is a special's.
    pub fn nameOf(self: *const Specials, id: u32) ?[]const u8 {
        const index = std.mem.indexOfScalar(u32, self.ids, id) orelse return null;
        return self.name(index);
    }

    /// The first special at or after `start` among those whose byte in `allowed` is not zero.
    pub fn find(self: *const Specials, text: []const u8, start: usize, allowed: []const u8) ?Found {
        var index = start;
        while (self.nextCandidate(text, index)) |candidate| : (index = candidate + 1) {
            const which = self.longestAt(text[candidate..], allowed) orelse continue;
            const len = self.name(which).len;
            return .{ .start = candidate, .end = candidate + len, .id = self.ids[which] };
        }
        return null;
    }

    fn nextCandidate(self: *const Specials, text: []const u8, start: usize) ?usize {
        if (self.only_first_byte) |byte| return std.mem.indexOfScalarPos(u8, text, start, byte);
        for (text[start..], start..) |byte, index| {
            if (self.first_bytes.isSet(byte)) return index;
        }
        return null;
    }

    fn longestAt(self: *const Specials, text: []const u8, allowed: []const u8) ?usize {
        var low: usize = 0;
        var high: usize = self.ends.len;
        var longest: ?usize = null;
        for (text, 0..) |byte, depth| {
            low = self.bound(low, high, depth, byte, .before);
            high = self.bound(low, high, depth, byte, .after);
            if (low == high) break;
            // Of names that share this much, the one that ends here sorts first.
            if (self.name(low).len == depth + 1) {
                if (allowed[low] != 0) longest = low;
                low += 1;
            }
        }
        return longest;
    }

    /// Among names equal in their first `depth` bytes (and longer): where those with `byte` next
    /// begin or end.
    fn bound(
        self: *const Specials,
        from: usize,
        to: usize,
        depth: usize,
        byte: u8,
        comptime side: enum { before, after },
    ) usize {
        var low = from;
        var high = to;
        while (low < high) {
            const middle = low + (high - low) / 2;
            const other = self.name(middle)[depth];
            const goes_right = if (side == .before) other < byte else other <= byte;
            if (goes_right) low = middle + 1 else high = middle;
        }
        return low;
    }
};

test "specials: the leftmost and then the longest allowed one is found" {
    const gpa = std.testing.allocator;
    const names = "<|ab|><|a|><|a|>b[x";
    var specials: Specials = try .init(gpa, names, &.{ 6, 5, 6, 2 }, &.{ 12, 10, 11, 13 });
    defer specials.deinit(gpa);
    const cases = [_]struct { []const u8, *const [4]u8, ?Found }{
        .{ "..<|a|>b", "\x01\x01\x01\x01", .{ .start = 2, .end = 8, .id = 11 } },
        .{ "..<|a|>b", "\x01\x01\x00\x01", .{ .start = 2, .end = 7, .id = 10 } },
        .{ "<|<|ab|>[x", "\x01\x01\x01\x01", .{ .start = 2, .end = 8, .id = 12 } },
        .{ "<|<|ab|>[x", "\x00\x00\x00\x01", .{ .start = 8, .end = 10, .id = 13 } },
        .{ "<|ab|", "\x01\x01\x01\x01", null },
        .{ "", "\x01\x01\x01\x01", null },
    };
    for (cases) |case| {
        try std.testing.expectEqualDeep(case[2], specials.find(case[0], 0, case[1]));
    }
}
