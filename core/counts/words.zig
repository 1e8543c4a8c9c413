//! Pretokens of at most 16 bytes → how often each was seen: the table of one thread.
//!
//! A line of the table is one cache line: three keys and their counts. A pretoken is its own key,
//! filled up with 0xFF, which no pretoken here contains. Its home is a line in the order of its
//! hash; where that is full, the first line behind it with room takes it. So a line with room ends
//! every search, a stretch of lines is a range of hashes, and growing is one pass from front to
//! back, which gives the old memory back as it goes.
//!
//! **Invariant** the entries of a line are those in its first slots; none is ever taken out.

const std = @import("std");
const platform = @import("../platform.zig");
const Allocator = std.mem.Allocator;

pub const Key = @Vector(16, u8);
pub const key_len_max = 16;

const slots_max = 3;

pub const Line = extern struct {
    keys: [slots_max]Key align(64),
    counts: [slots_max]u32,
    unused: u32,
};

/// The largest count in a slot. What is above it is kept apart, in multiples of it, so that the
/// count of an entry that was seen is never 0.
pub const count_max = std.math.maxInt(u32);

/// The keys of a table, and of all that are compared with it.
pub const Secret = struct {
    /// Laid over every key, so that no text can choose its line, and so that no pretoken has the
    /// key of an empty slot: it would have to start with 0xFF.
    mask: Key,

    pub fn init(seed: u64) Secret {
        var random: std.Random.SplitMix64 = .init(seed);
        return .{ .mask = @bitCast([2]u64{ random.next() << 8 | 0xFF, random.next() }) };
    }

    /// What is laid over 16 bytes of text by the length of the pretoken.
    const padding: [32]u8 = @as([16]u8, @splat(0)) ++ @as([16]u8, @splat(0xFF));

    /// The key of the `len` bytes at `bytes`, of which 16 can be read; `len` is at most 16.
    pub inline fn keyOf(self: Secret, bytes: [*]const u8, len: usize) Key {
        const read: Key = bytes[0..16].*;
        const filled: Key = padding[16 - len ..][0..16].*;
        return (read | filled) ^ self.mask;
    }

    /// The pretoken of a key, and the filler behind it.
    pub inline fn bytesOf(self: Secret, key: Key) [16]u8 {
        return key ^ self.mask;
    }
};

/// Whether a pretoken is one of those that are counted here.
pub fn isShort(piece: []const u8) bool {
    return piece.len <= key_len_max and std.mem.indexOfScalar(u8, piece, 0xFF) == null;
}

/// Length of a pretoken that is filled up.
pub inline fn lengthOf(bytes: [16]u8) usize {
    const filler: u16 = @bitCast(@as(Key, bytes) == @as(Key, @splat(0xFF)));
    return 16 - @as(usize, @clz(~filler));
}

pub inline fn hashOf(key: Key) u64 {
    const halves: [2]u64 = @bitCast(key);
    const product = @as(u128, halves[0]) * halves[1];
    return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
}

/// Where a hash lies among `places`, in the order of the hashes.
pub inline fn placeOf(hash: u64, places: usize) usize {
    return @intCast(@as(u128, hash) * places >> 64);
}

pub inline fn equal(a: Key, b: Key) bool {
    return @as(u16, @bitCast(a == b)) == 0xFFFF;
}

inline fn isFree(key: Key) bool {
    return @as([2]u64, @bitCast(key))[0] == 0;
}

pub const Words = struct {
    /// Homes, and lines behind the last one for what does not fit there.
    lines: []align(platform.memory.page_size) Line,
    homes: usize,
    entries: usize = 0,
    /// More entries want a larger table.
    entries_max: usize,
    /// What counts have beyond `count_max`.
    more: std.AutoHashMapUnmanaged([16]u8, u64) = .empty,

    const homes_min = 64;
    const lines_behind = 16;
    /// Two thirds of the slots: beyond that, too many words are not in their home.
    const entries_in_line_max = 2;
    /// A table of this size grows by half, a smaller one doubles.
    const homes_large = 1 << 14;
    /// Old memory is given back in pieces of this size.
    const piece_bytes = 2 << 20;

    pub fn init() Allocator.Error!Words {
        const self = try withHomes(homes_min);
        platform.memory.touch(self.lines);
        return self;
    }

    fn withHomes(homes: usize) Allocator.Error!Words {
        const lines = try platform.memory.map(Line, homes + lines_behind);
        platform.memory.adviseHuge(lines);
        return .{
            .lines = lines,
            .homes = homes,
            .entries_max = homes * entries_in_line_max,
        };
    }

    pub fn deinit(self: *Words, gpa: Allocator) void {
        platform.memory.unmap(self.lines);
        self.more.deinit(gpa);
    }

    pub fn bytes(self: *const Words) usize {
        return self.lines.len * @sizeOf(Line) + self.more.capacity() * 32;
    }

    pub inline fn homeOf(self: *const Words, key: Key) *Line {
        return &self.lines[placeOf(hashOf(key), self.homes)];
    }

    /// Makes room for `count` new entries; pointers to lines are void afterwards.
    pub inline fn reserve(self: *Words, count: usize) Allocator.Error!void {
        while (self.entries + count > self.entries_max) {
            @branchHint(.unlikely);
            try self.grow();
        }
    }

    /// Counts a key in its home if it is there.
    pub inline fn hit(line: *Line, key: Key) ?*u32 {
        // All three before the branch: which of them it is cannot be predicted.
        const is_second = @intFromBool(equal(line.keys[1], key));
        const is_third = @intFromBool(equal(line.keys[2], key));
        const is_first = @intFromBool(equal(line.keys[0], key));
        const slot: usize = @as(usize, is_second) + 2 * @as(usize, is_third);
        if (is_first + slot == 0) {
            @branchHint(.unlikely);
            return null;
        }
        return &line.counts[slot];
    }

    /// The count of a key that is in the table.
    pub fn find(self: *const Words, key: Key) ?*u32 {
        var index = placeOf(hashOf(key), self.homes);
        while (index < self.lines.len) : (index += 1) {
            const line = &self.lines[index];
            if (hit(line, key)) |count| return count;
            if (isFree(line.keys[slots_max - 1])) return null;
        }
        return null;
    }

    /// The count of a key, which is 0 for a new one. The table may grow: then pointers to lines
    /// are void.
    pub fn findOrInsert(self: *Words, key: Key) Allocator.Error!*u32 {
        while (true) {
            if (self.place(key)) |count| return count;
            // Only when the lines behind the last home are full.
            try self.grow();
        }
    }

    fn place(self: *Words, key: Key) ?*u32 {
        var index = placeOf(hashOf(key), self.homes);
        while (index < self.lines.len) : (index += 1) {
            const line = &self.lines[index];
            inline for (&line.keys, &line.counts) |*there, *count| {
                if (equal(there.*, key)) return count;
                if (isFree(there.*)) {
                    there.* = key;
                    self.entries += 1;
                    return count;
                }
            }
        }
        return null;
    }

    /// Takes note of a count that went from `count_max` to 0.
    pub noinline fn carry(
        self: *Words,
        gpa: Allocator,
        key: Key,
        count: *u32,
    ) Allocator.Error!void {
        try self.addMore(gpa, key, count_max);
        count.* = 1;
    }

    pub fn addMore(self: *Words, gpa: Allocator, key: Key, more: u64) Allocator.Error!void {
        const entry = try self.more.getOrPutValue(gpa, key, 0);
        entry.value_ptr.* += more;
    }

    pub fn moreOf(self: *const Words, key: Key) u64 {
        if (self.more.count() == 0) return 0;
        return self.more.get(key) orelse 0;
    }

    /// Takes one off a count that is not 0.
    pub fn takeOff(self: *Words, key: Key) void {
        const count = self.find(key).?;
        count.* -= 1;
        if (count.* > 0 or self.moreOf(key) == 0) return;
        self.more.getPtr(@as([16]u8, key)).?.* -= count_max;
        count.* = count_max;
    }

    noinline fn grow(self: *Words) Allocator.Error!void {
        const homes = self.homes;
        var larger = try withHomes(if (homes < homes_large) 2 * homes else homes + homes / 2);
        errdefer platform.memory.unmap(larger.lines);
        const lines_in_piece = piece_bytes / @sizeOf(Line);
        var touched: usize = 0;
        for (self.lines, 1..) |*line, moved| {
            if (touched < larger.lines.len and (moved - 1) % lines_in_piece == 0) {
                touched = larger.touchFor(touched, moved - 1 + lines_in_piece, self.homes);
            }
            for (line.keys, line.counts) |key, count| {
                if (isFree(key)) break;
                // In the order of the hashes: the new lines are filled from front to back.
                (try larger.findOrInsert(key)).* = count;
            }
            if (moved % lines_in_piece == 0) {
                platform.memory.giveBack(self.lines[moved - lines_in_piece .. moved]);
            }
        }
        larger.more = self.more;
        platform.memory.unmap(self.lines);
        self.* = larger;
    }

    /// Touches the lines to which those before `line` of a table with `homes` go, from `touched`
    /// on. Returns the end of what is touched.
    fn touchFor(self: *Words, touched: usize, line: usize, homes: usize) usize {
        const end = if (line >= homes) self.lines.len else line * self.homes / homes;
        const with_others = @min(self.lines.len, @max(touched, end + lines_behind));
        platform.memory.touch(self.lines[touched..with_others]);
        return with_others;
    }

    /// The entries whose hashes lie in one of `parts` equal ranges, in no certain order.
    pub fn range(self: *const Words, part: usize, parts: usize) Range {
        const first: u64 = @intCast((@as(u128, part) << 64) / parts);
        const last: u64 = @intCast(((@as(u128, part + 1) << 64) / parts) - 1);
        return .{
            .lines = self.lines,
            .first = first,
            .last = last,
            .line = placeOf(first, self.homes),
            .line_last = placeOf(last, self.homes),
        };
    }

    pub const Range = struct {
        lines: []Line,
        first: u64,
        last: u64,
        line: usize,
        line_last: usize,
        slot: usize = 0,

        pub const Found = struct { key: Key, count: *u32 };

        pub inline fn next(self: *Range) ?Found {
            while (self.line < self.lines.len) {
                const line = &self.lines[self.line];
                if (self.slot == slots_max or isFree(line.keys[self.slot])) {
                    // Behind the last home only what it did not have room for.
                    if (self.line >= self.line_last and self.slot < slots_max) return null;
                    self.line += 1;
                    self.slot = 0;
                    continue;
                }
                const key = line.keys[self.slot];
                self.slot += 1;
                const hash = hashOf(key);
                if (hash < self.first or hash > self.last) continue;
                return .{ .key = key, .count = &line.counts[self.slot - 1] };
            }
            return null;
        }
    };
};

test "words: what is counted is found, however the table grows" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const secret: Secret = .init(random.int(u64));
    var words: Words = try .init();
    defer words.deinit(gpa);
    for (0..3) |round| for (0..20_000) |number| {
        const bytes: [16]u8 = @bitCast([2]u64{ number + 1, number * 7 });
        try words.reserve(1);
        const count = try words.findOrInsert(secret.keyOf(&bytes, 16));
        try std.testing.expectEqual(round, count.*);
        count.* += 1;
    };
    try std.testing.expectEqual(20_000, words.entries);
    // Ranges of hashes have each entry once, whatever their number.
    for ([_]usize{ 1, 2, 7, 64, 1000 }) |parts| {
        var seen: usize = 0;
        for (0..parts) |part| {
            var range = words.range(part, parts);
            while (range.next()) |found| {
                try std.testing.expectEqual(3, found.count.*);
                try std.testing.expectEqual(part, placeOf(hashOf(found.key), parts));
                seen += 1;
            }
        }
        try std.testing.expectEqual(words.entries, seen);
    }
}

test "words: many of one home go behind the last line, and then the table grows" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var words: Words = try .init();
    defer words.deinit(gpa);
    var keys: [120]Key = undefined;
    for (&keys) |*key| while (true) {
        key.* = @bitCast([2]u64{ random.int(u64) | 1, random.int(u64) | 1 });
        // The last home of a table of any size up to this.
        if (placeOf(hashOf(key.*), 1024) == 1023) break;
    };
    for (keys, 1..) |key, number| (try words.findOrInsert(key)).* = @intCast(number);
    for (keys, 1..) |key, number| try std.testing.expectEqual(number, words.find(key).?.*);
    try std.testing.expect(words.homes > Words.homes_min);
    try std.testing.expectEqual(keys.len, words.entries);
}

test "words: counts go on beyond their slot, and back" {
    const gpa = std.testing.allocator;
    var words: Words = try .init();
    defer words.deinit(gpa);
    const key = Secret.init(3).keyOf("word            ", 4);
    const count = try words.findOrInsert(key);
    count.* = count_max;
    count.* +%= 1;
    try words.carry(gpa, key, count);
    try std.testing.expectEqual(1 << 32, count.* + words.moreOf(key));
    words.takeOff(key);
    try std.testing.expectEqual(count_max, count.* + words.moreOf(key));
    words.takeOff(key);
    try std.testing.expectEqual(count_max - 1, count.* + words.moreOf(key));
}
