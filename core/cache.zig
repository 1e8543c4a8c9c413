//! Pretoken → ids: a bounded hash table that caches results and is shared by all threads of a
//! tokenizer.
//!
//! A bucket is one CPU cache line with two slots (slots.zig). The key of a pretoken of at most 16
//! bytes is the pretoken itself, padded with 0xFF, a byte that no cached pretoken contains. The
//! value is up to three ids, in output order, and their number. Longer pretokens and longer results
//! are stored in an overflow ring buffer (records.zig).
//!
//! Each key has two buckets (cuckoo hashing). If the first is full, the entry goes to the second.
//! If both are full, another entry moves to its own second bucket, so nearly all slots can be used.
//! While an entry moves, lookups miss it. If two threads insert the same pretoken at once, the
//! table may contain it twice.
//!
//! **Invariant** a lookup returns the ids that encoding would produce, so results do not depend on
//! the state of the cache.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const records_ = @import("cache/records.zig");
const slots = @import("cache/slots.zig");
const Records = records_.Records;
const Value = slots.Value;
const hashBytes = @import("vocabulary/token_table.zig").hashBytes;

pub const Key = slots.Key;
pub const Line = slots.Line;
pub const key_len_max = 16;
pub const inline_max = slots.inline_max;
/// Longer pretokens are not cached.
pub const piece_len_max = records_.len_max;
/// A larger table would not fit any CPU's caches, and its words would have no index.
pub const table_bytes_max = 1 << 30;
/// Number of ids that may be written after the ids that are found.
pub const room_extra = 4;

/// Whether the ids of a text are needed or only their number. Known ids are not written for
/// `.number`, which saves 3 to 6 % of the instructions.
pub const Goal = enum { ids, number };

comptime {
    std.debug.assert(table_bytes_max / @sizeOf(u32) <= 1 << records_.index_bits);
}

/// The state that all threads share.
pub const Table = struct {
    /// Upper bound on the size of all parts. Untouched pages use no memory.
    bytes: usize,
    lines: []align(platform.memory.page_size) Line,
    /// XORed with every key. It is secret, so no input can be chosen to collide. It also guarantees
    /// that no pretoken has the key of an empty slot, since that pretoken would start with 0xFF.
    secret: Key,
    /// Tags of keys that were requested once. When the ring buffer is full, only keys that are
    /// requested again are admitted.
    seen: []align(platform.memory.page_size) u8,
    records: Records,
    /// Number of slots in use, and of entries lost because no slot was free. Threads add their own
    /// counts from time to time.
    taken: std.atomic.Value(usize) = .init(0),
    lost: std.atomic.Value(usize) = .init(0),

    pub const bytes_min = 1 << 18;

    /// `bytes` is a power of two and bounds all allocations together.
    pub fn create(bytes: usize, seed: u64) Allocator.Error!*Table {
        std.debug.assert(std.math.isPowerOfTwo(bytes) and bytes >= bytes_min);
        const lines_bytes = bytes / 2;
        const seen_bytes = bytes / 32;
        const others = lines_bytes + seen_bytes + platform.memory.page_size;
        const lines = try platform.memory.map(Line, lines_bytes / @sizeOf(Line));
        platform.memory.adviseHuge(lines);
        errdefer platform.memory.unmap(lines);
        const seen = try platform.memory.map(u8, seen_bytes);
        errdefer platform.memory.unmap(seen);
        var records: Records = try .init(bytes - others);
        errdefer records.deinit();
        const self = &(try platform.memory.map(Table, 1))[0];
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
        platform.memory.unmap(self.lines);
        self.records.deinit();
        platform.memory.unmap(self.seen);
        platform.memory.unmap(@as([*]Table, @ptrCast(self))[0..1]);
    }

    /// Whether a larger table would have lost fewer entries.
    pub fn isTight(self: *const Table) bool {
        return self.lost.load(.monotonic) > self.lines.len / 8 or self.records.lapsLost() > 0;
    }
};

/// One thread's handle to the table.
pub const Cache = struct {
    table: *Table,
    // Copies of the table's fields, on a cache line that no other thread writes.
    lines: []align(platform.memory.page_size) Line,
    seen: []align(platform.memory.page_size) u8,
    secret: Key,
    shift: u6,
    records: *Records,
    /// Number of ring buffer entries found since the counter was last reset.
    records_found: u32 = 0,
    /// Number of requests by keys that were seen before. Only one in `admitted_share` of them is
    /// inserted. In a text with too many pretokens for the ring buffer, inserting all would evict
    /// each entry before its next use.
    seen_again: u32 = 0,
    /// Counts that are not yet added to those of the table.
    taken: usize = 0,
    lost: usize = 0,

    const admitted_share = 4;
    /// Number of slots that a thread counts locally before it updates the shared counter. Updating
    /// the shared counter at each insertion would be a point of contention between threads.
    const told_after = 64;
    /// Maximum number of entries moved for one insertion: in general, and in a nearly full table.
    /// There each move is a cache miss and rarely finds a free slot.
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

    /// Adds the local counts to those of the table.
    pub fn tell(self: *Cache) void {
        if (self.taken > 0) _ = self.table.taken.fetchAdd(self.taken, .monotonic);
        if (self.lost > 0) _ = self.table.lost.fetchAdd(self.lost, .monotonic);
        self.taken = 0;
        self.lost = 0;
    }

    /// Bytes that are ORed with 16 bytes of text, selected by the length of the pretoken.
    const padding: [32]u8 = @as([16]u8, @splat(0)) ++ @as([16]u8, @splat(0xFF));

    /// Returns the key of the `len` bytes at `bytes`. `len` is at most 16, and 16 bytes must be
    /// readable.
    pub inline fn keyOf(self: *const Cache, bytes: [*]const u8, len: usize) Key {
        const read: Key = bytes[0..16].*;
        const filled: Key = padding[16 - len ..][0..16].*;
        return (read | filled) ^ self.secret;
    }

    /// Returns the key of a pretoken in any memory. Null if the pretoken contains the byte of the
    /// padding, so that it has no key.
    pub fn keyOfAny(self: *const Cache, piece: []const u8) ?Key {
        if (piece.len > key_len_max) return self.keyOfLong(piece);
        if (std.mem.indexOfScalar(u8, piece, 0xFF) != null) return null;
        var bytes: [key_len_max]u8 = undefined;
        @memcpy(bytes[0..piece.len], piece);
        return self.keyOf(&bytes, piece.len);
    }

    /// Returns a key that differs from those of short pretokens and of empty slots: without the
    /// secret it starts with 0xFF.
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

    /// Returns the second bucket of a key, given either of the two.
    inline fn otherLine(self: *const Cache, line: *Line, key: Key) *Line {
        const index = (@intFromPtr(line) - @intFromPtr(self.lines.ptr)) / @sizeOf(Line);
        const away: usize = @intCast((hashOf(key) & (self.lines.len - 1)) | 1);
        return &self.lines[index ^ away];
    }

    /// Prefetches the second bucket if `find` may need it. The first one is already in the cache.
    pub inline fn prepareOther(self: *const Cache, line: *Line, key: Key) void {
        if (!line.back.isNew()) @prefetch(self.otherLine(line, key), .{});
    }

    /// Prefetches the ring buffer entry of a key that is in its first bucket.
    pub inline fn prepareRecord(self: *const Cache, line: *const Line, key: Key) void {
        const value = line.valueOf(key) orelse return;
        if (value.count == 0) self.records.prepare(placeIn(value.words));
    }

    inline fn placeIn(words: [4]u32) records_.Place {
        return @bitCast(words[0..3].*);
    }

    /// Finds the ids of a pretoken, writes them to `out` and returns their number. `key` is the key
    /// of `piece`. `out` has capacity for `room_extra` more ids; its contents are undefined if the
    /// lookup fails. For `.number` nothing is written.
    pub fn find(
        self: *Cache,
        comptime goal: Goal,
        key: Key,
        piece: []const u8,
        out: [*]u32,
    ) ?usize {
        return self.findIn(key, piece, if (goal == .ids) out else null);
    }

    /// Whether the ids of a pretoken are cached.
    pub fn contains(self: *Cache, key: Key, piece: []const u8) bool {
        return self.findIn(key, piece, null) != null;
    }

    inline fn findIn(self: *Cache, key: Key, piece: []const u8, out: ?[*]u32) ?usize {
        const line = self.lineOf(key);
        if (line.valueOf(key)) |value| {
            if (self.idsIn(value, piece, out)) |count| return count;
        }
        // Entries are placed in a second bucket only if the back slot of the first one is in use.
        if (line.back.isNew()) return null;
        const value = self.otherLine(line, key).valueOf(key) orelse return null;
        return self.idsIn(value, piece, out);
    }

    inline fn idsIn(self: *Cache, value: Value, piece: []const u8, out: ?[*]u32) ?usize {
        if (value.count > 0) {
            if (out) |ids| ids[0..4].* = value.words;
            return value.count;
        }
        const count = self.records.read(placeIn(value.words), piece, out) orelse return null;
        self.records_found +%= 1;
        return count;
    }

    /// Inserts the ids of a pretoken. `key` is the key of `piece`.
    pub fn insert(self: *Cache, key: Key, piece: []const u8, ids: []const u32) void {
        const is_short = piece.len <= key_len_max;
        if (is_short and ids.len <= inline_max) return self.place(key, .ofIds(ids));
        if (!self.admits(key)) return;
        const record = self.records.write(if (is_short) "" else piece, ids) orelse return;
        const words: [3]u32 = @bitCast(record);
        const value: Value = .{ .words = words ++ .{0}, .count = 0 };
        // Replaces an older entry of this pretoken, or one with the same key.
        const line = self.lineOf(key);
        if (replace(self.otherLine(line, key), key, value)) return;
        self.place(key, value);
    }

    /// Whether an entry for this key is worth more than the entries that it overwrites.
    fn admits(self: *Cache, key: Key) bool {
        if (!self.records.isFull()) return true;
        if (!self.wasSeen(hashOf(key))) return false;
        self.seen_again +%= 1;
        return self.seen_again % admitted_share == 0;
    }

    /// Whether this text was probably requested before.
    pub fn comesAgain(self: *Cache, text: []const u8) bool {
        const halves: [2]u64 = @bitCast(self.secret);
        return self.wasSeen(hashBytes(halves[0], text));
    }

    /// Returns whether a hash was probably seen before, and records it.
    inline fn wasSeen(self: *Cache, hash: u64) bool {
        const tag = &self.seen[@intCast(hash & (self.seen.len - 1))];
        const new_tag: u8 = @truncate(hash >> 24 | 1);
        if (@atomicLoad(u8, tag, .monotonic) == new_tag) return true;
        @atomicStore(u8, tag, new_tag, .monotonic);
        return false;
    }

    /// Puts an entry into one of its two buckets. Frequent pretokens tend to appear early, so only
    /// the back slot of a bucket is moved. After the maximum number of moves the last entry is
    /// lost.
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

    /// Overwrites an entry with the same key. Returns false if the bucket has none.
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

    /// Puts an entry into a free slot of a bucket. Returns false if both are in use.
    inline fn putIn(self: *Cache, line: *Line, key: Key, value: Value) bool {
        return self.putInto(&line.front, key, value) or self.putInto(&line.back, key, value);
    }

    inline fn putInto(self: *Cache, slot: *slots.Slot, key: Key, value: Value) bool {
        if (!self.isFree(slot)) return false;
        const taken = slot.take() orelse return false;
        const before = taken.value();
        // Another thread has filled the slot since `isFree`.
        if (before) |some| if (some.count > 0 or self.records.holds(placeIn(some.words))) {
            taken.restore();
            return false;
        };
        taken.write(key, value);
        if (before == null) self.taken += 1;
        if (self.taken >= told_after) self.tell();
        return true;
    }

    /// Whether a slot is empty or refers to an overwritten ring buffer entry.
    inline fn isFree(self: *const Cache, slot: *const slots.Slot) bool {
        if (slot.isNew()) return true;
        const words = slot.record() orelse return false;
        return !self.records.holds(placeIn(words));
    }
};

test "cache: lookups return the inserted ids, and few entries are lost" {
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const table = try Table.create(1 << 23, random.int(u64));
    defer table.destroy();
    var cache: Cache = .of(table);
    // Slightly more than half of the slots.
    var words: [70_000]Word = undefined;
    for (&words, 0..) |*word, number| {
        word.* = .of(random, @intCast(number));
        const key = word.keyIn(&cache);
        try std.testing.expect(!cache.contains(key, word.piece()));
        cache.insert(key, word.piece(), word.ids());
        try std.testing.expect(try word.isIn(&cache));
    }
    var lost: usize = 0;
    for (&words) |*word| lost += @intFromBool(!try word.isIn(&cache));
    try std.testing.expect(lost < words.len / 100);
}

test "cache: an overfull table loses entries but never mixes them up" {
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

test "cache: threads that share a small table find the ids that they inserted" {
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
                // Some words are more frequent, and each comes with long entries that evict others.
                const bound = if (random.boolean()) self.words.len else self.words.len / 8;
                const word = &self.words[random.uintLessThan(usize, bound)];
                const key = word.keyIn(&cache);
                var ids: [Word.room]u32 = undefined;
                const count = cache.find(.ids, key, word.piece(), &ids) orelse {
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
    platform.threads.run(4, 4, context, Context.work);
    try std.testing.expectEqual(0, context.wrong.raw);
    try std.testing.expect(context.hits.raw > 100_000);
    try std.testing.expect(context.table.records.lapsLost() > 0);
    try std.testing.expect(context.table.isTight());
}

test "cache: a pretoken has the same key in any memory, and none if it contains the padding" {
    const table = try Table.create(Table.bytes_min, std.testing.random_seed);
    defer table.destroy();
    const cache: Cache = .of(table);
    const text = "a word and the next words";
    for (1..text.len + 1) |len| {
        const in_text = if (len > key_len_max)
            cache.keyOfLong(text[0..len])
        else
            cache.keyOf(text, len);
        const copy = try std.testing.allocator.dupe(u8, text[0..len]);
        defer std.testing.allocator.free(copy);
        try std.testing.expect(slots.equal(in_text, cache.keyOfAny(copy).?));
    }
    try std.testing.expectEqual(null, cache.keyOfAny("ab\xff"));
}

/// A pretoken with ids for the tests: short or long, with few or many ids.
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
        const count = cache.find(.ids, self.keyIn(cache), self.piece(), &found) orelse return false;
        try std.testing.expectEqualSlices(u32, self.ids(), found[0..count]);
        return true;
    }
    fn keyIn(self: *const Word, cache: *const Cache) Key {
        if (self.len > key_len_max) return cache.keyOfLong(self.piece());
        return cache.keyOf(&self.bytes, self.len);
    }
};
