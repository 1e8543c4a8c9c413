//! Pretokens of any length → their counts: the table of long pretokens of one thread.
//!
//! A line of the table has four slots. A slot has a hash of 64 bits, the place of the pretoken in
//! an arena, and its count. If two hashes are equal, the bytes are compared. Lines are in the order
//! of hashes, as in words.zig.
//!
//! **Invariant**: the entries of a line are in its first slots. Entries are never removed.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const words = @import("words.zig");
const placeOf = words.placeOf;

const slots_max = 4;

/// The secret of the hashes. Both factors of each product depend on it. With a known factor, a text
/// could make the other one 0, and so contain any number of pretokens with the same hash.
pub const Secret = struct {
    first: u64,
    second: u64,

    pub fn init(seed: u64) Secret {
        var random: std.Random.SplitMix64 = .init(~seed);
        return .{ .first = random.next(), .second = random.next() };
    }

    pub inline fn hashOf(self: Secret, piece: []const u8) u64 {
        var state = self.second ^ (@as(u64, piece.len) *% 0x9e37_79b9_7f4a_7c15);
        var rest = piece;
        while (rest.len > 16) : (rest = rest[16..]) {
            state = product(read(u64, rest) ^ self.first, read(u64, rest[8..]) ^ state);
        }
        var a: u64 = 0;
        var b: u64 = 0;
        if (rest.len >= 8) {
            a = read(u64, rest);
            b = read(u64, rest[rest.len - 8 ..]);
        } else if (rest.len >= 4) {
            a = read(u32, rest);
            b = read(u32, rest[rest.len - 4 ..]);
        } else if (rest.len > 0) {
            a = @as(u64, rest[0]) << 16 | @as(u64, rest[rest.len / 2]) << 8 | rest[rest.len - 1];
        }
        return product(a ^ self.first, b ^ state);
    }

    inline fn product(a: u64, b: u64) u64 {
        const wide = @as(u128, a) * b;
        return @as(u64, @truncate(wide)) ^ @as(u64, @truncate(wide >> 64));
    }

    inline fn read(comptime T: type, bytes: []const u8) u64 {
        return std.mem.readInt(T, bytes[0..@sizeOf(T)], .little);
    }
};

pub const Slot = extern struct {
    hash: u64,
    /// The place and the count. 0 if the slot is free.
    entry: u64,

    pub inline fn place(self: Slot) Place {
        return @truncate(self.entry);
    }
    pub inline fn count(self: Slot) u64 {
        return self.entry >> place_bits;
    }
    pub inline fn setCount(self: *Slot, new: u64) void {
        self.entry = new << place_bits | self.place();
    }
};
pub const Line = extern struct { slots: [slots_max]Slot align(64) };

const place_bits = 40;
pub const Place = u40;
const one = 1 << place_bits;

/// The largest count in a slot. `more` has the rest of larger counts, in multiples of this.
pub const count_max = (1 << (64 - place_bits)) - 1;

/// Bytes of pretokens, each after its length, in segments that never move. A place is the number of
/// a segment and an offset. The first place is not 0.
pub const Arena = struct {
    segments: std.ArrayList([]align(platform.memory.page_size) u8) = .empty,
    used: usize = 0,
    bytes: usize = 0,

    const offset_bits = 21;
    const segment_bytes = 1 << offset_bits;
    const segment_bytes_min = 1 << 16;
    /// Instead of a length: the length is in the next eight bytes.
    const long = 0xFF;

    fn deinit(self: *Arena, gpa: Allocator) void {
        for (self.segments.items) |segment| platform.memory.unmap(segment);
        self.segments.deinit(gpa);
    }

    fn put(self: *Arena, gpa: Allocator, piece: []const u8) Allocator.Error!Place {
        const head: usize = if (piece.len < long) 1 else 9;
        const wanted = head + piece.len;
        const segments = self.segments.items;
        if (segments.len == 0 or self.used + wanted > segments[segments.len - 1].len) {
            try self.addSegment(gpa, wanted);
        }
        const number = self.segments.items.len - 1;
        const room = self.segments.items[number][self.used..][0..wanted];
        room[0] = @min(piece.len, long);
        if (head > 1) std.mem.writeInt(u64, room[1..9], piece.len, .little);
        @memcpy(room[head..], piece);
        defer self.used += wanted;
        return @intCast(number << offset_bits | self.used);
    }

    fn addSegment(self: *Arena, gpa: Allocator, wanted: usize) Allocator.Error!void {
        const number = self.segments.items.len;
        if (number >> (place_bits - offset_bits) != 0) return error.OutOfMemory;
        // The first byte of the first segment is free, so no place is 0.
        const start: usize = if (number == 0) 1 else 0;
        const usual: usize = if (number < 8) segment_bytes_min else segment_bytes;
        const segment = try platform.memory.map(u8, @max(usual, wanted + start));
        errdefer platform.memory.unmap(segment);
        platform.memory.adviseHuge(segment);
        try self.segments.append(gpa, segment);
        self.used = start;
        self.bytes += segment.len;
    }

    pub inline fn at(self: *const Arena, place: Place) [*]const u8 {
        return self.segments.items[@intCast(place >> offset_bits)].ptr +
            @as(usize, @intCast(place & (segment_bytes - 1)));
    }

    pub inline fn get(self: *const Arena, place: Place) []const u8 {
        const record = self.at(place);
        if (record[0] != long) return record[1..][0..record[0]];
        return record[9..][0..@intCast(std.mem.readInt(u64, record[1..9], .little))];
    }
};

pub const Strings = struct {
    lines: []align(platform.memory.page_size) Line,
    homes: usize,
    entries: usize = 0,
    entries_max: usize,
    arena: Arena = .{},
    /// The parts of counts above `count_max`.
    more: std.AutoHashMapUnmanaged(Place, u64) = .empty,

    const homes_min = 16;
    const lines_behind = 16;
    /// Three quarters of the slots.
    const entries_in_line_max = 3;
    const homes_large = 1 << 14;
    const piece_bytes = 2 << 20;
    /// The number of lines whose bytes are fetched in advance.
    const lines_ahead = 8;

    pub fn init() Allocator.Error!Strings {
        const self = try withHomes(homes_min);
        platform.memory.touch(self.lines);
        return self;
    }

    fn withHomes(homes: usize) Allocator.Error!Strings {
        const lines = try platform.memory.map(Line, homes + lines_behind);
        platform.memory.adviseHuge(lines);
        return .{
            .lines = lines,
            .homes = homes,
            .entries_max = homes * entries_in_line_max,
        };
    }

    pub fn deinit(self: *Strings, gpa: Allocator) void {
        platform.memory.unmap(self.lines);
        self.arena.deinit(gpa);
        self.more.deinit(gpa);
    }

    pub fn bytes(self: *const Strings) usize {
        const others = self.more.capacity() * 32 + self.arena.segments.capacity * 16;
        return self.lines.len * @sizeOf(Line) + self.arena.bytes + others;
    }

    pub inline fn homeOf(self: *const Strings, hash: u64) *Line {
        return &self.lines[placeOf(hash, self.homes)];
    }

    /// Fetches the bytes of the entry with this hash in its home, whose line is in the cache.
    pub inline fn prepare(self: *const Strings, hash: u64) void {
        inline for (&self.homeOf(hash).slots) |*slot| {
            if (slot.hash == hash and slot.entry != 0) @prefetch(self.arena.at(slot.place()), .{});
        }
    }

    pub fn find(self: *const Strings, hash: u64, piece: []const u8) ?*Slot {
        var index = placeOf(hash, self.homes);
        while (index < self.lines.len) : (index += 1) {
            for (&self.lines[index].slots) |*slot| {
                if (slot.entry == 0) return null;
                if (self.isAt(slot, hash, piece)) return slot;
            }
        }
        return null;
    }

    inline fn isAt(self: *const Strings, slot: *const Slot, hash: u64, piece: []const u8) bool {
        return slot.hash == hash and std.mem.eql(u8, self.arena.get(slot.place()), piece);
    }

    /// Counts a pretoken once.
    pub fn add(self: *Strings, gpa: Allocator, hash: u64, piece: []const u8) Allocator.Error!void {
        if (self.entries == self.entries_max) try self.grow();
        while (true) {
            var index = placeOf(hash, self.homes);
            while (index < self.lines.len) : (index += 1) {
                for (&self.lines[index].slots) |*slot| {
                    if (slot.entry == 0) {
                        slot.* = .{ .hash = hash, .entry = try self.arena.put(gpa, piece) };
                        slot.entry += one;
                        self.entries += 1;
                        return;
                    }
                    if (!self.isAt(slot, hash, piece)) continue;
                    if (slot.count() == count_max) {
                        try self.addMore(gpa, slot.place(), count_max);
                        slot.setCount(1);
                    } else slot.entry += one;
                    return;
                }
            }
            // The lines after the last home are full.
            try self.grow();
        }
    }

    pub fn addMore(self: *Strings, gpa: Allocator, place: Place, more: u64) Allocator.Error!void {
        const entry = try self.more.getOrPutValue(gpa, place, 0);
        entry.value_ptr.* += more;
    }

    pub fn moreOf(self: *const Strings, place: Place) u64 {
        if (self.more.count() == 0) return 0;
        return self.more.get(place) orelse 0;
    }

    /// Subtracts one from a count, which must not be 0.
    pub fn takeOff(self: *Strings, hash: u64, piece: []const u8) void {
        const slot = self.find(hash, piece).?;
        slot.entry -= one;
        if (slot.count() > 0 or self.moreOf(slot.place()) == 0) return;
        self.more.getPtr(slot.place()).?.* -= count_max;
        slot.setCount(count_max);
    }

    noinline fn grow(self: *Strings) Allocator.Error!void {
        const homes = self.homes;
        var larger = try withHomes(if (homes < homes_large) 2 * homes else homes + homes / 2);
        errdefer platform.memory.unmap(larger.lines);
        const lines_in_piece = piece_bytes / @sizeOf(Line);
        var touched: usize = 0;
        for (self.lines, 1..) |*line, moved| {
            if (touched < larger.lines.len and (moved - 1) % lines_in_piece == 0) {
                touched = larger.touchFor(touched, moved - 1 + lines_in_piece, self.homes);
            }
            for (line.slots) |slot| {
                if (slot.entry == 0) break;
                try larger.insert(slot);
            }
            if (moved % lines_in_piece == 0) {
                platform.memory.giveBack(self.lines[moved - lines_in_piece .. moved]);
            }
        }
        larger.arena = self.arena;
        larger.more = self.more;
        platform.memory.unmap(self.lines);
        self.* = larger;
    }

    fn insert(self: *Strings, new: Slot) Allocator.Error!void {
        while (true) {
            var index = placeOf(new.hash, self.homes);
            while (index < self.lines.len) : (index += 1) {
                for (&self.lines[index].slots) |*slot| {
                    if (slot.entry != 0) continue;
                    slot.* = new;
                    self.entries += 1;
                    return;
                }
            }
            try self.grow();
        }
    }

    /// As in words.zig.
    fn touchFor(self: *Strings, touched: usize, line: usize, homes: usize) usize {
        const end = if (line >= homes) self.lines.len else line * self.homes / homes;
        const with_others = @min(self.lines.len, @max(touched, end + lines_behind));
        platform.memory.touch(self.lines[touched..with_others]);
        return with_others;
    }

    /// Returns the entries with hashes in one of `parts` equal ranges, in an undefined order.
    pub fn range(self: *const Strings, part: usize, parts: usize) Range {
        const first: u64 = @intCast((@as(u128, part) << 64) / parts);
        const last: u64 = @intCast(((@as(u128, part + 1) << 64) / parts) - 1);
        return .{
            .lines = self.lines,
            .arena = &self.arena,
            .first = first,
            .last = last,
            .line = placeOf(first, self.homes),
            .line_last = placeOf(last, self.homes),
        };
    }

    pub const Range = struct {
        lines: []Line,
        arena: *const Arena,
        first: u64,
        last: u64,
        line: usize,
        line_last: usize,
        slot: usize = 0,

        /// Fetches bytes in advance: the order of hashes is random in memory.
        inline fn prepare(self: *const Range) void {
            const line = self.line + lines_ahead;
            if (line >= self.lines.len) return;
            for (&self.lines[line].slots) |*slot| {
                if (slot.entry != 0) @prefetch(self.arena.at(slot.place()), .{});
            }
        }

        pub inline fn next(self: *Range) ?*Slot {
            while (self.line < self.lines.len) {
                const line = &self.lines[self.line];
                if (self.slot == slots_max or line.slots[self.slot].entry == 0) {
                    // After the last home, only its overflow.
                    if (self.line >= self.line_last and self.slot < slots_max) return null;
                    self.line += 1;
                    self.slot = 0;
                    self.prepare();
                    continue;
                }
                const slot = &line.slots[self.slot];
                self.slot += 1;
                if (slot.hash < self.first or slot.hash > self.last) continue;
                return slot;
            }
            return null;
        }
    };
};

test "strings: any bytes are counted while the table grows" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const secret: Secret = .init(prng.random().int(u64));
    var strings: Strings = try .init();
    defer strings.deinit(gpa);
    const buffer = try gpa.alloc(u8, 5 << 20);
    defer gpa.free(buffer);
    prng.random().bytes(buffer);
    // Some pretokens are longer than a segment of the arena.
    const lengths = [_]usize{ 1, 0, 16, 17, 254, 255, 256, 5000, 70_000, (2 << 20) - 1, 5 << 20 };
    for (0..3) |_| {
        for (lengths) |len| try strings.add(gpa, secret.hashOf(buffer[0..len]), buffer[0..len]);
        for (0..5000) |number| {
            const piece = std.mem.asBytes(&[3]u64{ number, 1, 2 });
            try strings.add(gpa, secret.hashOf(piece), piece);
        }
    }
    try std.testing.expectEqual(lengths.len + 5000, strings.entries);
    for (lengths) |len| {
        const slot = strings.find(secret.hashOf(buffer[0..len]), buffer[0..len]).?;
        try std.testing.expectEqual(3, slot.count());
    }
    for ([_]usize{ 1, 3, 100 }) |parts| {
        var seen: usize = 0;
        for (0..parts) |part| {
            var range = strings.range(part, parts);
            while (range.next()) |slot| seen += slot.count();
        }
        try std.testing.expectEqual(3 * strings.entries, seen);
    }
}

test "strings: pretokens with one hash are distinct and fill the last lines" {
    const gpa = std.testing.allocator;
    var strings: Strings = try .init();
    defer strings.deinit(gpa);
    const hash = std.math.maxInt(u64);
    for (0..2) |_| for (0..Strings.lines_behind * slots_max) |number| {
        try strings.add(gpa, hash, std.mem.asBytes(&number));
    };
    for (0..Strings.lines_behind * slots_max) |number| {
        const slot = strings.find(hash, std.mem.asBytes(&number)).?;
        try std.testing.expectEqual(2, slot.count());
    }
}

test "strings: counts pass the limit of their slot in both directions" {
    const gpa = std.testing.allocator;
    var strings: Strings = try .init();
    defer strings.deinit(gpa);
    try strings.add(gpa, 7, "a long pretoken of blanks");
    const slot = strings.find(7, "a long pretoken of blanks").?;
    slot.setCount(count_max);
    try strings.add(gpa, 7, "a long pretoken of blanks");
    try std.testing.expectEqual(count_max + 1, slot.count() + strings.moreOf(slot.place()));
    for (0..2) |_| strings.takeOff(7, "a long pretoken of blanks");
    try std.testing.expectEqual(count_max - 1, slot.count() + strings.moreOf(slot.place()));
}

test "strings: all hashes depend on the seed" {
    const piece = "\x15\x7c\x4a\x7f\xb9\x79\x37\x9e" ** 4;
    var seen: std.AutoHashMapUnmanaged(u64, void) = .empty;
    defer seen.deinit(std.testing.allocator);
    for (0..1000) |seed| {
        for ([_][]const u8{ piece, piece[0..16], piece[0..31], piece[0..3], "" }) |text| {
            const hash = Secret.init(seed).hashOf(text);
            try seen.putNoClobber(std.testing.allocator, hash, {});
        }
    }
}
