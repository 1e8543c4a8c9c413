//! Pretokens of at most 16 bytes → their counts: the table of one thread.
//!
//! A line of the table is one cache line with three keys and their counts. A key is the pretoken,
//! padded with 0xFF, which no pretoken in this table contains. Its home is the line at the position
//! of its hash. If the home is full, the entry is in the next line with a free slot. So a free slot
//! ends every search, consecutive lines are a range of hashes, and the table grows in one pass,
//! which returns the old memory on the way.
//!
//! **Invariant**: the entries of a line are in its first slots. Entries are never removed.

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

/// The largest count in a slot. The table `more` has the rest of larger counts, in multiples of
/// this number. So the count in the slot of an entry is never 0.
pub const count_max = std.math.maxInt(u32);

/// The secret of the keys of a table, and of all keys that are compared with it.
pub const Secret = struct {
    /// Combined with every key by exclusive or. So no text can choose its line. Only a pretoken
    /// that starts with 0xFF could have the key of an empty slot.
    mask: Key,

    pub fn init(seed: u64) Secret {
        var random: std.Random.SplitMix64 = .init(seed);
        return .{ .mask = @bitCast([2]u64{ random.next() << 8 | 0xFF, random.next() }) };
    }

    /// The mask for 16 bytes of text, by the length of the pretoken.
    const padding: [32]u8 = @as([16]u8, @splat(0)) ++ @as([16]u8, @splat(0xFF));

    /// Returns the key of the `len` bytes at `bytes`, at most 16. 16 bytes must be readable.
    pub inline fn keyOf(self: Secret, bytes: [*]const u8, len: usize) Key {
        const read: Key = bytes[0..16].*;
        const filled: Key = padding[16 - len ..][0..16].*;
        return (read | filled) ^ self.mask;
    }

    /// Returns the pretoken of a key, with its padding.
    pub inline fn bytesOf(self: Secret, key: Key) [16]u8 {
        return key ^ self.mask;
    }
};

/// Whether a pretoken belongs to this table.
pub fn isShort(piece: []const u8) bool {
    return piece.len <= key_len_max and std.mem.indexOfScalar(u8, piece, 0xFF) == null;
}

/// Returns the length of a padded pretoken.
pub inline fn lengthOf(bytes: [16]u8) usize {
    const filler: u16 = @bitCast(@as(Key, bytes) == @as(Key, @splat(0xFF)));
    return 16 - @as(usize, @clz(~filler));
}

pub inline fn hashOf(key: Key) u64 {
    const halves: [2]u64 = @bitCast(key);
    const product = @as(u128, halves[0]) * halves[1];
    return @as(u64, @truncate(product)) ^ @as(u64, @truncate(product >> 64));
}

/// Returns the position of a hash among `places`, which are in the order of hashes.
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
    /// The homes, and lines after the last home for its overflow.
    lines: []align(platform.memory.page_size) Line,
    homes: usize,
    entries: usize = 0,
    /// The table grows when it has more entries.
    entries_max: usize,
    /// The parts of counts above `count_max`.
    more: std.AutoHashMapUnmanaged([16]u8, u64) = .empty,

    const homes_min = 64;
    const lines_behind = 16;
    /// Two thirds of the slots. In a fuller table, too many words are not in their home.
    const entries_in_line_max = 2;
    /// A table of at least this size grows by half. A smaller one doubles.
    const homes_large = 1 << 14;
    /// Old memory is returned in parts of this size.
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

    /// Reserves slots for `count` new entries. Pointers to lines are invalid afterwards.
    pub inline fn reserve(self: *Words, count: usize) Allocator.Error!void {
        while (self.entries + count > self.entries_max) {
            @branchHint(.unlikely);
            try self.grow();
        }
    }

    /// Counts a key if it is in its home.
    pub inline fn hit(line: *Line, key: Key) ?*u32 {
        // All three are compared before the branch, because the match cannot be predicted.
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

    /// Returns the count of a key that is in the table.
    pub fn find(self: *const Words, key: Key) ?*u32 {
        var index = placeOf(hashOf(key), self.homes);
        while (index < self.lines.len) : (index += 1) {
            const line = &self.lines[index];
            if (hit(line, key)) |count| return count;
            if (isFree(line.keys[slots_max - 1])) return null;
        }
        return null;
    }

    /// Returns the count of a key, 0 for a new one. If the table grows, pointers to lines become
    /// invalid.
    pub fn findOrInsert(self: *Words, key: Key) Allocator.Error!*u32 {
        while (true) {
            if (self.place(key)) |count| return count;
            // The lines after the last home are full.
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

    /// Records that a count went from `count_max` to 0.
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

    /// Subtracts one from a count, which must not be 0.
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
                // In the order of hashes, so the new lines are filled in order.
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

    /// Touches the new lines of all entries before `line` of a table with `homes`, from `touched`.
    /// Returns the end of the touched lines.
    fn touchFor(self: *Words, touched: usize, line: usize, homes: usize) usize {
        const end = if (line >= homes) self.lines.len else line * self.homes / homes;
        const with_others = @min(self.lines.len, @max(touched, end + lines_behind));
        platform.memory.touch(self.lines[touched..with_others]);
        return with_others;
    }

    /// Returns the entries with hashes in one of `parts` equal ranges, in an undefined order.
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
                    // After the last home, only its overflow.
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

test "words: counted words are found while the table grows" {
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
    // Ranges of hashes have each entry once, for any number of ranges.
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

test "words: many words of one home fill the last lines, then the table grows" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var words: Words = try .init();
    defer words.deinit(gpa);
    var keys: [120]Key = undefined;
    for (&keys) |*key| while (true) {
        key.* = @bitCast([2]u64{ random.int(u64) | 1, random.int(u64) | 1 });
        // The last home of a table of any size up to this one.
        if (placeOf(hashOf(key.*), 1024) == 1023) break;
    };
    for (keys, 1..) |key, number| (try words.findOrInsert(key)).* = @intCast(number);
    for (keys, 1..) |key, number| try std.testing.expectEqual(number, words.find(key).?.*);
    try std.testing.expect(words.homes > Words.homes_min);
    try std.testing.expectEqual(keys.len, words.entries);
}

test "words: counts pass the limit of their slot in both directions" {
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
