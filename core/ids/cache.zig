//! Pretoken → ids, remembered: a bounded table that one thread at a time uses.
//!
//! A line of the table is one cache line: two keys and two values. A pretoken of at most 16 bytes
//! is its own key, filled up with 0xFF, which no pretoken here contains. A value is up to three
//! ids, stored as they go out, and their number. The front of a line holds nothing else, so what
//! is found there needs no second look; the back also holds pretokens of more ids or more bytes,
//! which lie in a store beside the table. When the store is full, everything is forgotten.
//!
//! **Invariant** what is found is what encoding would give: no result depends on the state.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pages = @import("pages.zig");
const hashBytes = @import("../vocabulary/token_table.zig").hashBytes;

pub const Key = @Vector(16, u8);
/// Three ids and how many of them count.
pub const Value = [4]u32;
pub const key_len_max = 16;
pub const inline_max = 3;

/// In place of the number: the ids are in the store from value[0] on, value[1] of them. Before
/// them lie the value[2] bytes of the pretoken if the key does not hold them.
const stored = inline_max + 1;

pub const Line = extern struct {
    front: Key align(64),
    front_value: Value align(16),
    back: Key,
    back_value: Value align(16),
};

pub const Cache = struct {
    /// What it takes at most; the pages of it that are never touched take nothing.
    bytes: usize,
    lines: []align(pages.page_size) Line,
    shift: u6,
    /// Laid over every key, so that no text can choose its line, and so that no pretoken has the
    /// key of an empty line: it would have to start with 0xFF.
    secret: Key,
    store: []align(pages.page_size) u32,
    store_used: usize = 0,
    /// Tags of keys that were asked for once: only what comes again is worth the store.
    seen: []align(pages.page_size) u8,

    pub const bytes_min = 1 << 18;

    /// `bytes` is a power of two and bounds all of it.
    pub fn create(bytes: usize, seed: u64) Allocator.Error!*Cache {
        std.debug.assert(std.math.isPowerOfTwo(bytes) and bytes >= bytes_min);
        const lines_bytes = bytes / 2;
        const seen_bytes = bytes / 32;
        const self_bytes = pages.page_size;
        const lines = try pages.map(Line, lines_bytes / @sizeOf(Line));
        errdefer pages.unmap(lines);
        const seen = try pages.map(u8, seen_bytes);
        errdefer pages.unmap(seen);
        const store = try pages.map(u32, (bytes - lines_bytes - seen_bytes - self_bytes) / 4);
        errdefer pages.unmap(store);
        pages.adviseHuge(lines);
        const self = &(try pages.map(Cache, 1))[0];
        var random: std.Random.SplitMix64 = .init(seed);
        self.* = .{
            .bytes = bytes,
            .lines = lines,
            .shift = @intCast(64 - @as(u7, std.math.log2_int(usize, lines.len))),
            .secret = @bitCast([2]u64{ random.next() << 8 | 0xFF, random.next() }),
            .store = store,
            .seen = seen,
        };
        return self;
    }

    pub fn destroy(self: *Cache) void {
        pages.unmap(self.lines);
        pages.unmap(self.store);
        pages.unmap(self.seen);
        pages.unmap(@as([*]Cache, @ptrCast(self))[0..1]);
    }

    /// What is laid over 16 bytes of text by the length of the pretoken.
    const padding: [32]u8 = @as([16]u8, @splat(0)) ++ @as([16]u8, @splat(0xFF));

    /// The key of the `len` bytes at `bytes`, of which 16 can be read; `len` is at most 16.
    pub inline fn keyOf(self: *const Cache, bytes: [*]const u8, len: usize) Key {
        const read: Key = bytes[0..16].*;
        const filled: Key = padding[16 - len ..][0..16].*;
        return (read | filled) ^ self.secret;
    }

    /// A key that no short pretoken and no empty line has: without the secret it starts with 0xFF.
    pub inline fn keyOfLong(self: *const Cache, piece: []const u8) Key {
        const halves: [2]u64 = @bitCast(self.secret);
        const hash = hashBytes(halves[1], piece);
        const more = @as(u64, @intCast(piece.len)) << 32 | hash >> 56 | 1 << 16;
        return @bitCast([2]u64{ hash << 8, more });
    }

    /// A line in which nothing is found: these keys would be empty and long.
    pub const no_line: Line = .{
        .front = @splat(0),
        .front_value = @splat(0),
        .back = @splat(0),
        .back_value = @splat(0),
    };

    inline fn hashOf(key: Key) u64 {
        const halves: [2]u64 = @bitCast(key);
        const product = @as(u128, halves[0]) * halves[1];
        return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
    }

    pub inline fn lineOf(self: *const Cache, key: Key) *Line {
        return &self.lines[@intCast(hashOf(key) >> self.shift)];
    }

    pub inline fn equal(a: Key, b: Key) bool {
        return @reduce(.Or, a ^ b) == 0;
    }

    /// The line where an entry goes whose own is full.
    inline fn buddyOf(self: *const Cache, line: *Line) *Line {
        const index = (@intFromPtr(line) - @intFromPtr(self.lines.ptr)) / @sizeOf(Line);
        return &self.lines[index ^ 1];
    }

    /// The ids of a pretoken, wherever they are; `key` is that of `piece`. Valid until something
    /// is inserted.
    pub fn find(self: *Cache, key: Key, piece: []const u8) ?[]const u32 {
        const line = self.lineOf(key);
        if (equal(line.front, key)) return line.front_value[0..line.front_value[3]];
        const value_place = if (equal(line.back, key))
            &line.back_value
        else if (line.back_value[3] == 0)
            // Nothing went on to the buddy, a line that is not at hand.
            return null
        else if (equal(self.buddyOf(line).back, key))
            &self.buddyOf(line).back_value
        else
            return null;
        const value = value_place.*;
        if (value[3] <= inline_max) return value_place[0..value[3]];
        if (value[2] != 0) {
            const bytes = std.mem.sliceAsBytes(self.store[value[0]..])[0..value[2]];
            if (!std.mem.eql(u8, bytes, piece)) return null;
        }
        return self.store[value[0] + words(value[2]) ..][0..value[1]];
    }

    pub fn insert(self: *Cache, key: Key, piece: []const u8, ids: []const u32) void {
        const line = self.lineOf(key);
        const is_short = piece.len <= key_len_max;
        if (is_short and ids.len <= inline_max) {
            var value: Value = @splat(0);
            @memcpy(value[0..ids.len], ids);
            value[3] = @intCast(ids.len);
            // What came first comes more often.
            if (line.front_value[3] != 0) return self.putBack(line, key, value);
            line.front = key;
            line.front_value = value;
            return;
        }
        const bytes: []const u8 = if (is_short) "" else piece;
        const size = words(bytes.len) + ids.len;
        if (self.store_used + size > self.store.len) self.clear();
        const start = self.store_used;
        @memcpy(std.mem.sliceAsBytes(self.store[start..])[0..bytes.len], bytes);
        @memcpy(self.store[start + words(bytes.len) ..][0..ids.len], ids);
        self.store_used += size;
        const place: u32 = @intCast(start);
        self.putBack(line, key, .{ place, @intCast(ids.len), @intCast(bytes.len), stored });
    }

    /// Brings the back of a line to the front; both hold their ids themselves.
    pub inline fn promote(line: *Line) void {
        std.mem.swap(Key, &line.front, &line.back);
        std.mem.swap(Value, &line.front_value, &line.back_value);
    }

    fn putBack(self: *Cache, line: *Line, key: Key, value: Value) void {
        if (line.back_value[3] != 0) {
            // Of two neighbours that overflow, the older entries are lost.
            const buddy = self.buddyOf(line);
            buddy.back = line.back;
            buddy.back_value = line.back_value;
        }
        line.back = key;
        line.back_value = value;
    }

    fn words(bytes: usize) usize {
        return (bytes + 3) / 4;
    }

    fn clear(self: *Cache) void {
        @memset(std.mem.sliceAsBytes(self.lines), 0);
        self.store_used = 0;
    }

    /// Fetches what `wasSeen` will look at.
    pub inline fn prepareSeen(self: *const Cache, key: Key) void {
        @prefetch(&self.seen[@intCast(hashOf(key) & (self.seen.len - 1))], .{});
    }

    /// Whether a key was marked, as far as is remembered.
    pub inline fn wasSeen(self: *const Cache, key: Key) bool {
        const hash = hashOf(key);
        return self.seen[@intCast(hash & (self.seen.len - 1))] == tagOf(hash);
    }

    pub inline fn markSeen(self: *Cache, key: Key) void {
        const hash = hashOf(key);
        self.seen[@intCast(hash & (self.seen.len - 1))] = tagOf(hash);
    }

    inline fn tagOf(hash: u64) u8 {
        return @truncate(hash >> 24 | 1);
    }
};

test "cache: only a line whose back is taken has an entry in its buddy" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const cache = try Cache.create(Cache.bytes_min, random.int(u64));
    defer cache.destroy();
    var buffer: [16]u8 = undefined;
    for (0..10_000) |number| {
        const piece = try std.fmt.bufPrint(&buffer, "word{d}", .{number});
        const key = cache.keyOf(&buffer, piece.len);
        try std.testing.expectEqual(null, cache.find(key, piece));
        // Some have their ids in the store.
        const ids = [_]u32{ @intCast(number), 1, 2, 3, 4 };
        const len = 1 + number % ids.len;
        cache.insert(key, piece, ids[0..len]);
        try std.testing.expectEqualSlices(u32, ids[0..len], cache.find(key, piece).?);
        const line = cache.lineOf(key);
        const is_behind = Cache.equal(line.back, key) and line.back_value[3] <= inline_max;
        if (is_behind and random.boolean()) Cache.promote(line);
        if (number % 1000 != 0) continue;
        var guests: usize = 0;
        for (cache.lines) |*some| {
            if (some.back_value[3] == 0 or cache.lineOf(some.back) == some) continue;
            try std.testing.expect(cache.lineOf(some.back).back_value[3] != 0);
            guests += 1;
        }
        try std.testing.expect(guests > 0 or number < 1000);
    }
}
