//! Pairs and their counts → the best pair: a heap whose entries may be outdated.
//!
//! Counts only fall, so an entry's count is never too low. If a count can rise (`Pairs.revives`),
//! the pair gets a second entry. The caller looks up the best pair and reinserts it if its count
//! has fallen. The heap is never searched for a pair.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Heap = @import("../heap.zig").Heap;
const Kind = @import("pieces.zig").Kind;

/// The tie-breaking rule: which of two pairs with the same count is merged first.
pub const Ties = enum {
    /// The smaller (left id, right id).
    ids,
    /// The greater (left bytes, right bytes); for tokens with the same bytes, the smaller ids.
    bytes,
    /// The one that occurs first, in the order of the words, then of their bytes.
    order,
    /// The one whose joined string has fewer characters, then the smaller string.
    pieces,
};

pub const Entry = struct {
    count: u64,
    /// The ids, with the left one in the upper half.
    pair: u64,
    /// With `Ties.order`, the first occurrence.
    seen: u64 = 0,
};

/// The bytes of tokens by id.
pub const Texts = struct {
    bytes: std.ArrayList(u8) = .empty,
    starts: []u32,
    lens: []u32,
    /// With `Ties.pieces`.
    kinds: []Kind = &.{},

    pub fn init(gpa: Allocator, ids_end: usize) Allocator.Error!Texts {
        const starts = try gpa.alloc(u32, ids_end);
        errdefer gpa.free(starts);
        const lens = try gpa.alloc(u32, ids_end);
        @memset(starts, 0);
        @memset(lens, 0);
        return .{ .starts = starts, .lens = lens };
    }

    pub fn deinit(self: *Texts, gpa: Allocator) void {
        self.bytes.deinit(gpa);
        gpa.free(self.starts);
        gpa.free(self.lens);
        gpa.free(self.kinds);
    }

    pub fn initKinds(self: *Texts, gpa: Allocator) Allocator.Error!void {
        self.kinds = try gpa.alloc(Kind, self.lens.len);
        @memset(self.kinds, .{});
    }

    /// Returns the number of characters of a pair, with `Ties.pieces`.
    pub fn charsOf(self: *const Texts, pair: u64) u64 {
        return @as(u64, self.kinds[leftOf(pair)].len) + self.kinds[rightOf(pair)].len;
    }

    pub fn set(self: *Texts, gpa: Allocator, id: u32, bytes: []const u8) Allocator.Error!void {
        try self.reserve(gpa, bytes.len);
        self.starts[id] = @intCast(self.bytes.items.len);
        self.lens[id] = @intCast(bytes.len);
        self.bytes.appendSliceAssumeCapacity(bytes);
    }

    /// Reserves memory for a token of `len` bytes. All tokens together are limited to 4 GB.
    pub fn reserve(self: *Texts, gpa: Allocator, len: u64) Allocator.Error!void {
        if (self.bytes.items.len + len > std.math.maxInt(u32)) return error.OutOfMemory;
        try self.bytes.ensureUnusedCapacity(gpa, @intCast(len));
    }

    pub fn of(self: *const Texts, id: u32) []const u8 {
        return self.bytes.items[self.starts[id]..][0..self.lens[id]];
    }
};

pub fn leftOf(pair: u64) u32 {
    return @intCast(pair >> 32);
}
pub fn rightOf(pair: u64) u32 {
    return @truncate(pair);
}
pub fn pairOf(left: u32, right: u32) u64 {
    return @as(u64, left) << 32 | right;
}

pub const Order = struct {
    ties: Ties,
    texts: *const Texts,

    pub inline fn isBefore(self: Order, a: Entry, b: Entry) bool {
        if (a.count != b.count) return a.count > b.count;
        return switch (self.ties) {
            .ids => a.pair < b.pair,
            .order => a.seen < b.seen,
            .bytes => self.isGreater(a.pair, b.pair),
            .pieces => self.isLess(a.pair, b.pair),
        };
    }

    /// Whether a joined string precedes another. Two pairs have the same string only if no word
    /// contains one of them.
    fn isLess(self: Order, a: u64, b: u64) bool {
        const texts = self.texts;
        const chars, const other_chars = .{ texts.charsOf(a), texts.charsOf(b) };
        if (chars != other_chars) return chars < other_chars;
        var some: Joined = .of(texts, a);
        var others: Joined = .of(texts, b);
        while (some.next()) |byte| {
            const other = others.next() orelse return false;
            if (byte != other) return byte < other;
        }
        return others.next() != null or a < b;
    }

    /// Iterates over the bytes of a pair.
    const Joined = struct {
        now: []const u8,
        then: []const u8,

        fn of(texts: *const Texts, pair: u64) Joined {
            return .{ .now = texts.of(leftOf(pair)), .then = texts.of(rightOf(pair)) };
        }

        fn next(self: *Joined) ?u8 {
            if (self.now.len == 0) {
                self.now = self.then;
                self.then = &.{};
                if (self.now.len == 0) return null;
            }
            defer self.now = self.now[1..];
            return self.now[0];
        }
    };

    fn isGreater(self: Order, a: u64, b: u64) bool {
        const texts = self.texts;
        return switch (std.mem.order(u8, texts.of(leftOf(a)), texts.of(leftOf(b)))) {
            .gt => true,
            .lt => false,
            .eq => switch (std.mem.order(u8, texts.of(rightOf(a)), texts.of(rightOf(b)))) {
                .gt => true,
                .lt => false,
                .eq => a < b,
            },
        };
    }
};

pub const Queue = Heap(Entry, Order, 4);

test "queue: entries come in order, for all tie-breaking rules" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var texts: Texts = try .init(gpa, 16);
    defer texts.deinit(gpa);
    for (0..16) |id| {
        var bytes: [3]u8 = undefined;
        for (&bytes) |*byte| byte.* = random.uintLessThan(u8, 3);
        try texts.set(gpa, @intCast(id), bytes[0..random.uintAtMost(usize, 3)]);
    }
    try texts.initKinds(gpa);
    for (texts.kinds, 0..) |*kind, id| kind.* = .of(texts.of(@intCast(id)), 0);
    for (std.enums.values(Ties)) |ties| {
        const order: Order = .{ .ties = ties, .texts = &texts };
        var queue: Queue = .{};
        defer queue.deinit(gpa);
        for (0..500) |seen| try queue.push(gpa, order, .{
            .count = random.uintLessThan(u64, 10),
            .pair = pairOf(random.uintLessThan(u32, 16), random.uintLessThan(u32, 16)),
            .seen = seen,
        });
        // Some counts fall.
        for (0..100) |_| {
            var top = queue.first().?;
            top.count -|= 3;
            queue.replace(order, top);
        }
        var before = queue.first().?;
        for (0..500) |_| {
            const now = queue.first().?;
            try std.testing.expect(!order.isBefore(now, before));
            before = now;
            _ = queue.pop(order);
        }
        try std.testing.expectEqual(null, queue.first());
    }
}

test "queue: for tokens with the same bytes the smaller ids come first" {
    const gpa = std.testing.allocator;
    var texts: Texts = try .init(gpa, 3);
    defer texts.deinit(gpa);
    for (0..3) |id| try texts.set(gpa, @intCast(id), "a");
    const order: Order = .{ .ties = .bytes, .texts = &texts };
    const first: Entry = .{ .count = 1, .pair = pairOf(0, 2) };
    const second: Entry = .{ .count = 1, .pair = pairOf(1, 0) };
    try std.testing.expect(order.isBefore(first, second));
    try std.testing.expect(!order.isBefore(second, first));
}

test "queue: shorter pieces come first, then smaller ones" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var texts: Texts = try .init(gpa, 64);
    defer texts.deinit(gpa);
    try texts.initKinds(gpa);
    for (texts.kinds, 0..) |*kind, id| {
        var bytes: [8]u8 = undefined;
        for (&bytes) |*byte| byte.* = 'a' + random.uintLessThan(u8, 2);
        try texts.set(gpa, @intCast(id), bytes[0..random.uintAtMost(usize, 8)]);
        kind.* = .of(texts.of(@intCast(id)), 0);
    }
    const order: Order = .{ .ties = .pieces, .texts = &texts };
    for (0..5000) |_| {
        var entries: [2]Entry = undefined;
        var strings: [2][16]u8 = undefined;
        var lens: [2]usize = undefined;
        for (&entries, &strings, &lens) |*entry, *string, *len| {
            const pair = pairOf(random.uintLessThan(u32, 64), random.uintLessThan(u32, 64));
            entry.* = .{ .count = 1, .pair = pair };
            const left, const right = .{ texts.of(leftOf(pair)), texts.of(rightOf(pair)) };
            @memcpy(string[0..left.len], left);
            @memcpy(string[left.len..][0..right.len], right);
            len.* = left.len + right.len;
        }
        const chars = [_]u64{ texts.charsOf(entries[0].pair), texts.charsOf(entries[1].pair) };
        const expected = switch (std.math.order(chars[0], chars[1])) {
            .lt => true,
            .gt => false,
            .eq => switch (std.mem.order(u8, strings[0][0..lens[0]], strings[1][0..lens[1]])) {
                .lt => true,
                .gt => false,
                .eq => entries[0].pair < entries[1].pair,
            },
        };
        try std.testing.expectEqual(expected, order.isBefore(entries[0], entries[1]));
    }
}

test "queue: tokens of more than 4 GB are rejected" {
    const gpa = std.testing.allocator;
    var texts: Texts = try .init(gpa, 1);
    defer texts.deinit(gpa);
    texts.bytes.items.len = std.math.maxInt(u32) - 1;
    defer texts.bytes.items.len = 0;
    try std.testing.expectError(error.OutOfMemory, texts.set(gpa, 0, "ab"));
}
