//! Pretoken → ids, remembered: a bounded table that all threads of a tokenizer share.
//!
//! A line of the table is one cache line of two slots (slots.zig). A pretoken of at most 16 bytes
//! is its own key, filled up with 0xFF, which no pretoken here contains. A value is up to three
//! ids, stored as they go out, and their number; pretokens of more ids or more bytes are records
//! beside the table (records.zig).
//!
//! A key has two lines. It goes to its other one when the first is full, and where both are, an
//! entry moves to its own other line: so nearly all slots can be used. An entry on its way is
//! nowhere, and two threads may learn the same word: then it is there twice.
//!
//! **Invariant** what is found is what encoding would give: no result depends on the state.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pages = @import("../pages.zig");
const pool = @import("../pool.zig");
const records_ = @import("records.zig");
const slots = @import("slots.zig");
const Records = records_.Records;
const Value = slots.Value;
const hashBytes = @import("../vocabulary/token_table.zig").hashBytes;

pub const Key = slots.Key;
pub const Line = slots.Line;
pub const key_len_max = 16;
pub const packed_max = 13;
pub const inline_max = slots.inline_max;
/// Ids that may be written beyond those that are found.
pub const room_extra = 4;

/// What the threads share.
pub const Table = struct {
    /// What it takes at most; the pages of it that are never touched take nothing.
    bytes: usize,
    lines: []align(pages.page_size) Line,
    /// Laid over every key, so that no text can choose its line, and so that no pretoken has the
    /// key of an empty line: it would have to start with 0xFF.
    secret: Key,
    /// Tags of keys that were asked for once: when the records are full, only what comes again is
    /// worth one.
    seen: []align(pages.page_size) u8,
    records: Records,
    /// Slots of the lines that are taken, and entries that were lost because there was none; what
    /// the threads counted so far.
    taken: std.atomic.Value(usize) = .init(0),
    lost: std.atomic.Value(usize) = .init(0),

    pub const bytes_min = 1 << 18;

    /// `bytes` is a power of two and bounds all of it.
    pub fn create(bytes: usize, seed: u64) Allocator.Error!*Table {
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
        const self = &(try pages.map(Table, 1))[0];
        var random: std.Random.SplitMix64 = .init(seed);
        self.* = .{
            .bytes = bytes,
            .lines = lines,
            .secret = @bitCast([2]u64{ random.next() << 8 | 0xFF, random.next() }),
            .records = records,
            .seen = seen,
        };
        return self;
    }

    pub fn destroy(self: *Table) void {
        pages.unmap(self.lines);
        self.records.deinit();
        pages.unmap(self.seen);
        pages.unmap(@as([*]Table, @ptrCast(self))[0..1]);
    }

    /// Whether more memory would have been of use.
    pub fn isTight(self: *const Table) bool {
        return self.lost.load(.monotonic) > self.lines.len / 8 or self.records.lapsLost() > 0;
    }
};

/// A table in the hands of one thread.
pub const Cache = struct {
    table: *Table,
    // Copies, which no other thread writes beside.
    lines: []align(pages.page_size) Line,
    seen: []align(pages.page_size) u8,
    secret: Key,
    shift: u6,
    records: *Records,
    /// How many records were found since it was last asked.
    records_found: u32 = 0,
    /// How many keys came again for a record. Not all of them get one, or in a text that is too
    /// long for them each would be gone before it comes.
    seen_again: u32 = 0,
    /// What the table has not been told of yet.
    taken: usize = 0,
    lost: usize = 0,

    const admitted_share = 4;
    /// So many slots are counted alone: where all threads learn, one number for all would be the
    /// one thing that each of them waits for.
    const told_after = 64;
    /// Entries that are moved to make room for one, in a table with room and in one that is nearly
    /// full, where each move is a look at cold memory and mostly in vain.
    const moves_max = 12;
    const moves_max_full = 2;

    pub fn of(table: *Table) Cache {
        const lines = table.lines;
        return .{
            .table = table,
            .lines = lines,
            .seen = table.seen,
            .secret = table.secret,
            .shift = @intCast(64 - @as(u7, std.math.log2_int(usize, lines.len))),
            .records = &table.records,
        };
    }

    /// Tells the table what was counted.
    pub fn tell(self: *Cache) void {
        if (self.taken > 0) _ = self.table.taken.fetchAdd(self.taken, .monotonic);
        if (self.lost > 0) _ = self.table.lost.fetchAdd(self.lost, .monotonic);
        self.taken = 0;
        self.lost = 0;
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

    /// A key for up to `packed_max` characters of the same 256, by their low bytes: what the key
    /// holds needs no bytes in a record. No other kind has it: without the secret it starts with
    /// 0xFF, as one of a long pretoken does, whose byte 9 is zero.
    pub inline fn keyOfPacked(self: *const Cache, high: u8, low: [16]u8, len: usize) Key {
        const filled: Key = padding[16 - len ..][0..16].*;
        const others = @Vector(2, u8){ high, 0 };
        const order = [16]i32{ -2, 0, 1, 2, 3, 4, 5, 6, 7, -2, 8, 9, 10, 11, 12, -1 };
        var key = @shuffle(u8, @as(Key, low) | filled, others, order) ^ self.secret;
        key[0] = 0;
        key[9] = @intCast(len);
        return key;
    }

    inline fn hashOf(key: Key) u64 {
        const halves: [2]u64 = @bitCast(key);
        const product = @as(u128, halves[0]) * halves[1];
        return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
    }

    pub inline fn lineOf(self: *const Cache, key: Key) *Line {
        return &self.lines[@intCast(hashOf(key) >> self.shift)];
    }

    /// The other line of a key, whichever of the two is given.
    inline fn otherLine(self: *const Cache, line: *Line, key: Key) *Line {
        const index = (@intFromPtr(line) - @intFromPtr(self.lines.ptr)) / @sizeOf(Line);
        const away: usize = @intCast((hashOf(key) & (self.lines.len - 1)) | 1);
        return &self.lines[index ^ away];
    }

    /// Fetches what `find` looks at beyond the key's own line, which is at hand.
    pub inline fn prepareOther(self: *const Cache, line: *Line, key: Key) void {
        if (!line.back.isNew()) @prefetch(self.otherLine(line, key), .{});
    }

    /// Fetches the record of a key that is in its own line.
    pub inline fn prepareRecord(self: *const Cache, line: *const Line, key: Key) void {
        const value = line.valueOf(key) orelse return;
        if (value.count == 0) self.records.prepare(placeIn(value.words));
    }

    inline fn placeIn(words: [4]u32) records_.Place {
        return @bitCast(words[0..3].*);
    }

    /// Finds the ids of a pretoken, wherever they are, and writes them to `out`, or only counts
    /// them where that is void; `key` is that of `piece`. Returns how many they are. `out` has room
    /// for `room_extra` ids more, and has anything in it if nothing is found.
    pub fn find(self: *Cache, key: Key, piece: []const u8, out: anytype) ?usize {
        const line = self.lineOf(key);
        if (line.valueOf(key)) |value| {
            if (self.idsIn(value, piece, out)) |count| return count;
        }
        // Only from a line whose back is taken something went to another one.
        if (line.back.isNew()) return null;
        const value = self.otherLine(line, key).valueOf(key) orelse return null;
        return self.idsIn(value, piece, out);
    }

    inline fn idsIn(self: *Cache, value: Value, piece: []const u8, out: anytype) ?usize {
        if (value.count > 0) {
            if (@TypeOf(out) != void) out[0..4].* = value.words;
            return value.count;
        }
        const count = self.records.read(placeIn(value.words), piece, out) orelse return null;
        self.records_found +%= 1;
        return count;
    }

    /// Whether a pretoken is remembered.
    pub fn knows(self: *Cache, key: Key, piece: []const u8) bool {
        return self.find(key, piece, {}) != null;
    }

    /// Remembers the ids of a pretoken; `key` is that of `piece`.
    pub fn insert(self: *Cache, key: Key, piece: []const u8, ids: []const u32) void {
        const is_short = piece.len <= key_len_max;
        if (is_short and ids.len <= inline_max) return self.place(key, .ofIds(ids));
        if (!self.admits(key)) return;
        const record = self.records.write(if (is_short) "" else piece, ids) orelse return;
        const words: [3]u32 = @bitCast(record);
        const value: Value = .{ .words = words ++ .{0}, .count = 0 };
        // An older record of it, or one with the same key, gives way.
        const line = self.lineOf(key);
        if (replace(self.otherLine(line, key), key, value)) return;
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
        if (@atomicLoad(u8, tag, .monotonic) == new_tag) return true;
        @atomicStore(u8, tag, new_tag, .monotonic);
        return false;
    }

    /// Puts an entry into one of its two lines. What came first comes more often, so it is the
    /// back of a line that moves on; where there is no end to that, the last one moved is lost.
    fn place(self: *Cache, new_key: Key, new_value: Value) void {
        var key = new_key;
        var value = new_value;
        var line = self.lineOf(key);
        if (replace(line, key, value) or self.putIn(line, key, value)) return;
        const taken = self.table.taken.load(.monotonic) + self.taken;
        const is_full = taken > self.lines.len * 3 / 2;
        for (0..if (is_full) moves_max_full else moves_max) |_| {
            line = self.otherLine(line, key);
            if (self.putIn(line, key, value)) return;
            const back = line.back.take() orelse break;
            const moved_key, const moved = .{ back.key(), back.value() };
            back.write(key, value);
            key, value = .{ moved_key, moved orelse return };
        }
        self.lost += 1;
    }

    /// Writes over an entry of the same key.
    inline fn replace(line: *Line, key: Key, value: Value) bool {
        for ([_]*slots.Slot{ &line.front, &line.back }) |slot| {
            if (!slot.has(key)) continue;
            const taken = slot.take() orelse return true;
            const is_same = slots.equal(taken.key(), key);
            if (is_same) taken.write(key, value) else taken.restore();
            return is_same;
        }
        return false;
    }

    /// Puts an entry into a free slot of a line; false if it has none.
    inline fn putIn(self: *Cache, line: *Line, key: Key, value: Value) bool {
        return self.putInto(&line.front, key, value) or self.putInto(&line.back, key, value);
    }

    inline fn putInto(self: *Cache, slot: *slots.Slot, key: Key, value: Value) bool {
        if (!self.isFree(slot)) return false;
        const taken = slot.take() orelse return false;
        const before = taken.value();
        // Somebody was there first.
        if (before) |some| if (some.count > 0 or self.records.holds(placeIn(some.words))) {
            taken.restore();
            return false;
        };
        taken.write(key, value);
        if (before == null) self.taken += 1;
        if (self.taken >= told_after) self.tell();
        return true;
    }

    /// Whether a slot has nothing, or a record that is gone.
    inline fn isFree(self: *const Cache, slot: *const slots.Slot) bool {
        if (slot.isNew()) return true;
        const words = slot.record() orelse return false;
        return !self.records.holds(placeIn(words));
    }
};

test "cache: what is found is what was inserted, and little is lost" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const table = try Table.create(1 << 23, random.int(u64));
    defer table.destroy();
    var cache: Cache = .of(table);
    // Somewhat more than half of the slots.
    var words: [70_000]Word = undefined;
    for (&words, 0..) |*word, number| {
        word.* = .of(random, @intCast(number));
        const key = word.keyIn(&cache);
        try std.testing.expect(!cache.knows(key, word.piece()));
        cache.insert(key, word.piece(), word.ids());
        try std.testing.expect(try word.isIn(&cache));
        if (random.boolean()) cache.lineOf(key).promote();
    }
    var lost: usize = 0;
    for (&words) |*word| lost += @intFromBool(!try word.isIn(&cache));
    try std.testing.expect(lost < words.len / 100);
}

test "cache: far too many words are found or forgotten, never mixed up" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const table = try Table.create(Table.bytes_min, random.int(u64));
    defer table.destroy();
    var cache: Cache = .of(table);
    var words: [20_000]Word = undefined;
    for (&words, 0..) |*word, number| word.* = .of(random, @intCast(number));
    var hits: usize = 0;
    for (0..4) |_| for (&words) |*word| {
        if (try word.isIn(&cache)) {
            hits += 1;
        } else cache.insert(word.keyIn(&cache), word.piece(), word.ids());
    };
    try std.testing.expect(hits > 0);
    try std.testing.expect(cache.records.isFull());
}

test "cache: threads that share a table too small for them find what they inserted" {
    const Context = struct {
        words: [6000]Word = undefined,
        table: *Table,
        hits: std.atomic.Value(usize) = .init(0),
        wrong: std.atomic.Value(usize) = .init(0),

        fn work(self: *@This(), job: usize) void {
            var prng: std.Random.DefaultPrng = .init(std.testing.random_seed +% job);
            const random = prng.random();
            var cache: Cache = .of(self.table);
            defer cache.tell();
            for (0..200_000) |_| {
                // Some come more often, and each comes with records that push others out.
                const bound = if (random.boolean()) self.words.len else self.words.len / 8;
                const word = &self.words[random.uintLessThan(usize, bound)];
                const key = word.keyIn(&cache);
                const line = cache.lineOf(key);
                if (random.uintLessThan(u8, 64) == 0) line.promote();
                var ids: [Word.room]u32 = undefined;
                const count = cache.find(key, word.piece(), &ids) orelse {
                    cache.insert(key, word.piece(), word.ids());
                    continue;
                };
                const is_right = std.mem.eql(u32, word.ids(), ids[0..count]);
                _ = (if (is_right) &self.hits else &self.wrong).fetchAdd(1, .monotonic);
            }
        }
    };
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const context = try std.testing.allocator.create(Context);
    defer std.testing.allocator.destroy(context);
    context.* = .{ .table = try .create(Table.bytes_min, std.testing.random_seed) };
    defer context.table.destroy();
    for (&context.words, 0..) |*word, number| word.* = .of(prng.random(), @intCast(number));
    pool.run(4, 4, context, Context.work);
    try std.testing.expectEqual(0, context.wrong.raw);
    try std.testing.expect(context.hits.raw > 100_000);
    try std.testing.expect(context.table.records.lapsLost() > 0);
    try std.testing.expect(context.table.isTight());
}

/// A pretoken and ids for the tests: short or long, few ids or many.
const Word = struct {
    bytes: [48]u8,
    len: usize,
    number: [6]u32,
    ids_len: usize,

    const room = 6 + room_extra;

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
    fn isIn(self: *const Word, cache: *Cache) !bool {
        var found: [room]u32 = undefined;
        const count = cache.find(self.keyIn(cache), self.piece(), &found) orelse return false;
        try std.testing.expectEqualSlices(u32, self.ids(), found[0..count]);
        return true;
    }
    fn keyIn(self: *const Word, cache: *const Cache) Key {
        if (self.len > key_len_max) return cache.keyOfLong(self.piece());
        return cache.keyOf(&self.bytes, self.len);
    }
};
