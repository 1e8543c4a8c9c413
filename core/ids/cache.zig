//! Pretoken → ids, remembered: a bounded table that one thread at a time uses.
//!
//! A line of the table is one cache line: two keys and two values. A pretoken of at most 16 bytes
//! is its own key, filled up with 0xFF, which no pretoken here contains. A value is up to three
//! ids, stored as they go out, and their number; pretokens of more ids or more bytes are records
//! beside the table (records.zig).
//!
//! A key has two lines. It goes to its other one when the first is full, and where both are, an
//! entry moves to its own other line: so nearly all slots can be used.
//!
//! **Invariant** what is found is what encoding would give: no result depends on the state.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pages = @import("../pages.zig");
const records_ = @import("records.zig");
const Records = records_.Records;
const hashBytes = @import("../vocabulary/token_table.zig").hashBytes;

pub const Key = @Vector(16, u8);
/// Three ids and how many of them count.
pub const Value = [4]u32;
pub const key_len_max = 16;
pub const inline_max = 3;

/// In place of the number: the others are the `Place` of a record. It has the bytes of the
/// pretoken if the key does not.
pub const recorded = inline_max + 1;

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
    /// Slots of the lines that are taken, and entries that were lost because there was none.
    taken: usize = 0,
    lost: usize = 0,
    /// Laid over every key, so that no text can choose its line, and so that no pretoken has the
    /// key of an empty line: it would have to start with 0xFF.
    secret: Key,
    records: Records,
    /// How many were found since it was last asked.
    records_found: u32 = 0,
    /// Tags of keys that were asked for once, and how many came again: when the records are full,
    /// only what comes again is worth one, and not all of that, or in a text that is too long for
    /// them each would be gone before it comes.
    seen: []align(pages.page_size) u8,
    seen_again: u32 = 0,

    pub const bytes_min = 1 << 18;
    const admitted_share = 4;
    /// Entries that are moved to make room for one, in a table with room and in one that is nearly
    /// full, where each move is a look at cold memory and mostly in vain.
    const moves_max = 12;
    const moves_max_full = 2;

    /// `bytes` is a power of two and bounds all of it.
    pub fn create(bytes: usize, seed: u64) Allocator.Error!*Cache {
        std.debug.assert(std.math.isPowerOfTwo(bytes) and bytes >= bytes_min);
        const lines_bytes = bytes / 2;
        const seen_bytes = bytes / 32;
        const others = lines_bytes + seen_bytes + pages.page_size;
        const lines = try pages.map(Line, lines_bytes / @sizeOf(Line));
        pages.adviseHuge(lines);
        errdefer pages.unmap(lines);
        const seen = try pages.map(u8, seen_bytes);
        errdefer pages.unmap(seen);
        var records: Records = try .init(bytes - others);
        errdefer records.deinit();
        const self = &(try pages.map(Cache, 1))[0];
        var random: std.Random.SplitMix64 = .init(seed);
        self.* = .{
            .bytes = bytes,
            .lines = lines,
            .shift = @intCast(64 - @as(u7, std.math.log2_int(usize, lines.len))),
            .secret = @bitCast([2]u64{ random.next() << 8 | 0xFF, random.next() }),
            .records = records,
            .seen = seen,
        };
        return self;
    }

    pub fn destroy(self: *Cache) void {
        pages.unmap(self.lines);
        self.records.deinit();
        pages.unmap(self.seen);
        pages.unmap(@as([*]Cache, @ptrCast(self))[0..1]);
    }

    /// Whether more memory would have been of use: so much was lost that moving to a larger cache
    /// takes less time than learning it again took.
    pub fn isTight(self: *const Cache) bool {
        return self.lost > self.lines.len / 8 or self.records.lapsLost() > 0;
    }

    /// Puts what fits into a cache that is empty and of the same tokenizer; this one is then only
    /// good for `destroy`. Both are walked in the order of their lines, and what was read is given
    /// back to the system, so that there is never more than what the larger one may take.
    pub fn moveTo(self: *Cache, other: *Cache) void {
        std.debug.assert(equal(self.secret, other.secret));
        // So many lines become one. What is in front came first, and comes more often.
        const group_len = @max(1, self.lines.len / other.lines.len);
        const step = @min(self.lines.len, (2 << 20) / @sizeOf(Line));
        var start: usize = 0;
        while (start < self.lines.len) : (start += group_len) {
            const group = self.lines[start..][0..group_len];
            for (group) |*line| other.adopt(self, line, line.front, line.front_value);
            for (group) |*line| other.adopt(self, line, line.back, line.back_value);
            const end = start + group_len;
            if (end % step == 0 and end >= step) pages.forget(self.lines[end - step .. end]);
        }
    }

    /// Makes an empty cache equal to another one of its size.
    pub fn copyFrom(self: *Cache, other: *const Cache) void {
        @memcpy(self.lines, other.lines);
        @memcpy(self.seen, other.seen);
        self.records.copyFrom(&other.records);
        self.taken = other.taken;
    }

    /// Takes over an entry of another cache if its own line has room: a table that begins with all
    /// it can hold would have its words in their other lines.
    fn adopt(self: *Cache, from: *const Cache, line: *const Line, key: Key, value: Value) void {
        if (value[3] == 0) return;
        if (self.lines.len < from.lines.len and from.lineOf(key) != line) return;
        var own = value;
        if (value[3] == recorded) {
            const record = placeIn(value);
            if (!from.records.holds(record) or !self.records.hasRoomFor(record)) return;
            const bytes, const ids = .{ from.records.bytesOf(record), from.records.idsOf(record) };
            own[0..3].* = @bitCast(self.records.write(bytes, ids) orelse return);
        }
        _ = self.putIn(self.lineOf(key), key, own);
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

    inline fn hashOf(key: Key) u64 {
        const halves: [2]u64 = @bitCast(key);
        const product = @as(u128, halves[0]) * halves[1];
        return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
    }

    pub inline fn lineOf(self: *const Cache, key: Key) *Line {
        return &self.lines[@intCast(hashOf(key) >> self.shift)];
    }

    pub inline fn equal(a: Key, b: Key) bool {
        return @as(u16, @bitCast(a == b)) == 0xFFFF;
    }

    /// The value of a key that is in this line with its ids.
    pub inline fn valueIn(line: *const Line, key: Key) ?*const Value {
        if (equal(line.front, key) and line.front_value[3] <= inline_max) {
            @branchHint(.likely);
            return &line.front_value;
        }
        const is_back = equal(line.back, key) and line.back_value[3] <= inline_max;
        return if (is_back) &line.back_value else null;
    }

    /// The other line of a key, whichever of the two is given.
    inline fn otherLine(self: *const Cache, line: *Line, key: Key) *Line {
        const index = (@intFromPtr(line) - @intFromPtr(self.lines.ptr)) / @sizeOf(Line);
        const away: usize = @intCast((hashOf(key) & (self.lines.len - 1)) | 1);
        return &self.lines[index ^ away];
    }

    /// Fetches what `find` looks at beyond the key's own line, which is at hand.
    pub inline fn prepareOther(self: *const Cache, line: *Line, key: Key) void {
        if (line.back_value[3] != 0) @prefetch(self.otherLine(line, key), .{});
    }

    /// Fetches the record of a key that is in its own line.
    pub inline fn prepareRecord(self: *const Cache, line: *const Line, key: Key) void {
        const value = if (equal(line.front, key)) line.front_value else line.back_value;
        if (value[3] == recorded) self.records.prepare(placeIn(value));
    }

    inline fn placeIn(value: Value) records_.Place {
        return @bitCast(value[0..3].*);
    }

    /// The ids of a pretoken, wherever they are; `key` is that of `piece`. Valid until something
    /// is inserted.
    pub fn find(self: *Cache, key: Key, piece: []const u8) ?[]const u32 {
        const line = self.lineOf(key);
        const value = anyValueIn(line, key) orelse blk: {
            // Only from a line whose back is taken something went to another one.
            if (line.back_value[3] == 0) return null;
            break :blk anyValueIn(self.otherLine(line, key), key) orelse return null;
        };
        if (value[3] <= inline_max) return value[0..value[3]];
        const record = placeIn(value.*);
        if (!self.records.holds(record)) return null;
        const bytes = self.records.bytesOf(record);
        if (bytes.len != 0 and !std.mem.eql(u8, bytes, piece)) return null;
        self.records_found +%= 1;
        return self.records.idsOf(record);
    }

    inline fn anyValueIn(line: *Line, key: Key) ?*Value {
        if (equal(line.front, key)) return &line.front_value;
        if (equal(line.back, key)) return &line.back_value;
        return null;
    }

    /// Remembers the ids of a pretoken; `key` is that of `piece`.
    pub fn insert(self: *Cache, key: Key, piece: []const u8, ids: []const u32) void {
        const is_short = piece.len <= key_len_max;
        var value: Value = @splat(0);
        if (is_short and ids.len <= inline_max) {
            @memcpy(value[0..ids.len], ids);
            value[3] = @intCast(ids.len);
            return self.place(key, value);
        }
        if (!self.admits(key)) return;
        const record = self.records.write(if (is_short) "" else piece, ids) orelse return;
        value[0..3].* = @bitCast(record);
        value[3] = recorded;
        // An older record of it, or one with the same key, gives way.
        const line = self.lineOf(key);
        for ([_]*Line{ line, self.otherLine(line, key) }) |either| {
            const old = anyValueIn(either, key) orelse continue;
            old.* = value;
            return;
        }
        self.place(key, value);
    }

    /// Whether a record for this key is worth what it takes the place of.
    fn admits(self: *Cache, key: Key) bool {
        if (!self.records.isFull()) return true;
        if (!self.wasSeen(hashOf(key))) return false;
        self.seen_again +%= 1;
        return self.seen_again % admitted_share == 0;
    }

    /// Whether so much text was asked for before, as far as is remembered.
    pub fn comesAgain(self: *Cache, text: []const u8) bool {
        const halves: [2]u64 = @bitCast(self.secret);
        return self.wasSeen(hashBytes(halves[0], text));
    }

    /// Whether a hash was seen before; from now on it was.
    inline fn wasSeen(self: *Cache, hash: u64) bool {
        const tag = &self.seen[@intCast(hash & (self.seen.len - 1))];
        const new_tag: u8 = @truncate(hash >> 24 | 1);
        defer tag.* = new_tag;
        return tag.* == new_tag;
    }

    /// Brings the back of a line to the front, which is looked at first.
    pub inline fn promote(line: *Line) void {
        std.mem.swap(Key, &line.front, &line.back);
        std.mem.swap(Value, &line.front_value, &line.back_value);
    }

    /// Puts an entry into one of its two lines. What came first comes more often, so it is the
    /// back of a line that moves on; where there is no end to that, the last one moved is lost.
    fn place(self: *Cache, new_key: Key, new_value: Value) void {
        var key = new_key;
        var value = new_value;
        var line = self.lineOf(key);
        if (self.putIn(line, key, value)) return;
        const is_full = self.taken > self.lines.len * 3 / 2;
        for (0..if (is_full) moves_max_full else moves_max) |_| {
            line = self.otherLine(line, key);
            if (self.putIn(line, key, value)) return;
            std.mem.swap(Key, &line.back, &key);
            std.mem.swap(Value, &line.back_value, &value);
        }
        self.lost += 1;
    }

    /// Puts an entry into a free slot of a line; false if it has none.
    inline fn putIn(self: *Cache, line: *Line, key: Key, value: Value) bool {
        if (self.isFree(line.front_value)) {
            self.taken += @intFromBool(line.front_value[3] == 0);
            line.front = key;
            line.front_value = value;
            return true;
        }
        if (!self.isFree(line.back_value)) return false;
        self.taken += @intFromBool(line.back_value[3] == 0);
        line.back = key;
        line.back_value = value;
        return true;
    }

    /// Whether a slot has nothing, or a record that is gone.
    inline fn isFree(self: *const Cache, value: Value) bool {
        return value[3] == 0 or (value[3] == recorded and !self.records.holds(placeIn(value)));
    }
};

test "cache: what is found is what was inserted, and little is lost" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const cache = try Cache.create(1 << 23, random.int(u64));
    defer cache.destroy();
    // Somewhat more than half of the slots.
    var words: [70_000]Word = undefined;
    for (&words, 0..) |*word, number| {
        word.* = .of(random, @intCast(number));
        const key = word.keyIn(cache);
        try std.testing.expectEqual(null, cache.find(key, word.piece()));
        cache.insert(key, word.piece(), word.ids());
        try std.testing.expectEqualSlices(u32, word.ids(), cache.find(key, word.piece()).?);
        const line = cache.lineOf(key);
        if (line.back_value[3] != 0 and random.boolean()) Cache.promote(line);
    }
    var lost: usize = 0;
    for (&words) |*word| {
        const found = cache.find(word.keyIn(cache), word.piece()) orelse {
            lost += 1;
            continue;
        };
        try std.testing.expectEqualSlices(u32, word.ids(), found);
    }
    try std.testing.expect(lost < words.len / 100);
}

test "cache: far too many words are found or forgotten, never mixed up" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const cache = try Cache.create(Cache.bytes_min, random.int(u64));
    defer cache.destroy();
    var words: [20_000]Word = undefined;
    for (&words, 0..) |*word, number| word.* = .of(random, @intCast(number));
    var hits: usize = 0;
    for (0..4) |_| for (&words) |*word| {
        const key = word.keyIn(cache);
        if (cache.find(key, word.piece())) |found| {
            try std.testing.expectEqualSlices(u32, word.ids(), found);
            hits += 1;
            continue;
        }
        cache.insert(key, word.piece(), word.ids());
    };
    try std.testing.expect(hits > 0);
    try std.testing.expect(cache.records.isFull());
}

test "cache: what moves to another cache is what was there" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const seed = random.int(u64);
    const cache = try Cache.create(1 << 22, seed);
    var words: [20_000]Word = undefined;
    for (&words, 0..) |*word, number| {
        word.* = .of(random, @intCast(number));
        cache.insert(word.keyIn(cache), word.piece(), word.ids());
    }
    const same = try Cache.create(cache.bytes, seed);
    defer same.destroy();
    same.copyFrom(cache);
    const large = try Cache.create(cache.bytes * 4, seed);
    defer large.destroy();
    cache.moveTo(large);
    cache.destroy();
    const small = try Cache.create(1 << 20, seed);
    defer small.destroy();
    var found = [3]usize{ 0, 0, 0 };
    for (0..2) |round| {
        for (&words) |*word| for ([_]*Cache{ same, large, small }, &found) |any, *number| {
            const ids = any.find(word.keyIn(any), word.piece()) orelse continue;
            try std.testing.expectEqualSlices(u32, word.ids(), ids);
            number.* += 1;
        };
        if (round > 0) break;
        try std.testing.expect(@min(found[0], found[1]) > words.len * 9 / 10);
        try std.testing.expectEqual(0, found[2]);
        found = .{ 0, 0, 0 };
        const again = try Cache.create(large.bytes, seed);
        defer again.destroy();
        again.copyFrom(large);
        again.moveTo(small);
    }
    // 16,384 slots, most of which are used.
    try std.testing.expect(found[2] > 6_000);
}

/// A pretoken and ids for the tests: short or long, few ids or many.
const Word = struct {
    bytes: [48]u8,
    len: usize,
    number: [6]u32,
    ids_len: usize,

    fn of(random: std.Random, number: u32) Word {
        var self: Word = .{
            .bytes = @splat('x'),
            .len = if (number % 8 == 0) 20 + random.uintLessThan(usize, 20) else 9,
            .number = @splat(number),
            .ids_len = 1 + number % 5,
        };
        _ = std.fmt.bufPrint(&self.bytes, "w{d:0>8}", .{number}) catch unreachable;
        return self;
    }
    fn piece(self: *const Word) []const u8 {
        return self.bytes[0..self.len];
    }
    fn ids(self: *const Word) []const u32 {
        return self.number[0..self.ids_len];
    }
    fn keyIn(self: *const Word, cache: *const Cache) Key {
        if (self.len > key_len_max) return cache.keyOfLong(self.piece());
        return cache.keyOf(&self.bytes, self.len);
    }
};
