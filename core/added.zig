//! Text → added tokens: where the next one stands, leftmost and then longest.
//!
//! The names are kept sorted, so those that share a prefix are a range; a candidate is narrowed
//! down byte by byte with two binary searches. Nearly all text is passed over by a look at two
//! bytes of 64 places at once, so hundreds of names cost nothing where there are none: each name
//! has one of eight buckets, and four tables of nibbles say which buckets a byte can begin or go
//! on with (the idea is Hyperscan's Teddy).
//!
//! What a name takes and when it is refused is Hugging Face's rule, which `Matches` spells out.

const std = @import("std");
const Allocator = std.mem.Allocator;
const bytes_ = @import("pretokens/blocks/bytes.zig");
const unicode = @import("unicode.zig");

/// Names to look for, without what happens to them when they are found.
pub const Names = struct {
    /// Sorted, end to end.
    bytes: []const u8,
    ends: []const u32,
    /// Which byte of a choice is about each name.
    places: []const u32,
    /// The names that begin with byte b are those from `firsts[b]` to before `firsts[b + 1]`.
    firsts: [257]u32,
    /// Set when all names begin with one byte: then the search is a plain byte search.
    only_first: ?u8,
    /// Bytes of the longest name.
    len_max: usize,
    filter: Filter,

    pub const Match = struct { start: usize, end: usize, index: usize };

    /// `names` are sorted, distinct and not empty; `lengths` cuts them. Without `places` they are
    /// in the order of a choice. All are copied.
    pub fn init(
        gpa: Allocator,
        names: []const u8,
        lengths: []const u32,
        places: ?[]const u32,
    ) Allocator.Error!Names {
        const bytes = try gpa.dupe(u8, names);
        errdefer gpa.free(bytes);
        const ends = try gpa.dupe(u32, lengths);
        errdefer gpa.free(ends);
        const own_places = try gpa.alloc(u32, lengths.len);
        for (own_places, 0..) |*place, index| {
            place.* = if (places) |some| some[index] else @intCast(index);
        }
        var self: Names = .{
            .bytes = bytes,
            .ends = ends,
            .places = own_places,
            .firsts = @splat(0),
            .only_first = null,
            .len_max = 0,
            .filter = .{},
        };
        var end: u32 = 0;
        for (ends) |*length| {
            self.len_max = @max(self.len_max, length.*);
            self.firsts[@as(usize, names[end]) + 1] += 1;
            end += length.*;
            length.* = end;
        }
        for (self.firsts[1..], self.firsts[0..256]) |*count, before| count.* += before;
        const has_one = ends.len > 0 and self.firsts[@as(usize, names[0]) + 1] == ends.len;
        if (has_one) self.only_first = names[0];
        self.filter.fill(&self);
        return self;
    }

    pub fn deinit(self: *Names, gpa: Allocator) void {
        gpa.free(self.bytes);
        gpa.free(self.ends);
        gpa.free(self.places);
        self.* = undefined;
    }

    pub fn name(self: *const Names, index: usize) []const u8 {
        return self.bytes[if (index == 0) 0 else self.ends[index - 1]..self.ends[index]];
    }

    pub fn isFirst(self: *const Names, byte: u8) bool {
        return self.firsts[byte] < self.firsts[@as(usize, byte) + 1];
    }

    /// The first name at or after `start` among those whose byte in `choice` is not zero.
    pub fn find(self: *const Names, text: []const u8, start: usize, choice: []const u8) ?Match {
        if (self.ends.len == 0) return null;
        var index = start;
        if (self.only_first) |byte| {
            while (std.mem.indexOfScalarPos(u8, text, index, byte)) |at| : (index = at + 1) {
                if (self.matchAt(text, at, choice)) |match| return match;
            }
            return null;
        }
        while (index < text.len) : (index += bytes_.len) {
            var hits = self.filter.hits(text[index..]);
            while (hits != 0) : (hits &= hits - 1) {
                if (self.matchAt(text, index + @ctz(hits), choice)) |match| return match;
            }
        }
        return null;
    }

    fn matchAt(self: *const Names, text: []const u8, at: usize, choice: []const u8) ?Match {
        const which = self.longestAt(text[at..], choice) orelse return null;
        return .{ .start = at, .end = at + self.name(which).len, .index = which };
    }

    fn longestAt(self: *const Names, text: []const u8, choice: []const u8) ?usize {
        var low: usize = self.firsts[text[0]];
        var high: usize = self.firsts[@as(usize, text[0]) + 1];
        var longest: ?usize = null;
        for (text, 0..) |byte, depth| {
            if (depth > 0) {
                low = self.bound(low, high, depth, byte, .before);
                high = self.bound(low, high, depth, byte, .after);
            }
            if (low == high) break;
            // Of names that share this much, the one that ends here sorts first.
            if (self.name(low).len == depth + 1) {
                if (choice[self.places[low]] != 0) longest = low;
                low += 1;
            }
        }
        return longest;
    }

    /// Among names equal in their first `depth` bytes (and longer): where those with `byte` next
    /// begin or end.
    fn bound(
        self: *const Names,
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

/// 64 bytes → where a name may begin: never too few places.
const Filter = struct {
    /// By low and high nibble: the buckets of names that have such a first, or second, byte.
    first: [2]bytes_.Table = @splat(@splat(0)),
    second: [2]bytes_.Table = @splat(@splat(0)),

    fn fill(self: *Filter, names: *const Names) void {
        var bytes_seen: usize = 0;
        for (0..256) |first| {
            if (!names.isFirst(@intCast(first))) continue;
            const bucket = @as(u8, 1) << @intCast(bytes_seen % 8);
            bytes_seen += 1;
            enter(&self.first, @intCast(first), bucket);
            for (names.firsts[first]..names.firsts[first + 1]) |index| {
                const name = names.name(index);
                if (name.len > 1) enter(&self.second, name[1], bucket) else {
                    for (&self.second) |*table| for (table) |*entry| {
                        entry.* |= bucket;
                    };
                }
            }
        }
    }

    fn enter(tables: *[2]bytes_.Table, byte: u8, bucket: u8) void {
        tables[0][byte & 15] |= bucket;
        tables[1][byte >> 4] |= bucket;
    }

    /// One bit for each of the first 64 bytes of `text` that may begin a name.
    inline fn hits(self: *const Filter, text: []const u8) u64 {
        if (text.len > bytes_.len) return self.hitsAt(text.ptr);
        // Behind the text lies a byte that is as good as any.
        var padded: [bytes_.len + 1]u8 = @splat(0);
        @memcpy(padded[0..text.len], text);
        return self.hitsAt(&padded) & bytes_.low(@intCast(text.len));
    }

    inline fn hitsAt(self: *const Filter, text: [*]const u8) u64 {
        const first = find(&self.first, bytes_.load(text));
        return bytes_.bits(first & find(&self.second, bytes_.load(text + 1)) != bytes_.splat(0));
    }

    inline fn find(tables: *const [2]bytes_.Table, bytes: bytes_.Bytes) bytes_.Bytes {
        return bytes_.lookup(tables[0], bytes & bytes_.splat(15)) &
            bytes_.lookup(tables[1], bytes >> @splat(4));
    }
};

pub const Flags = packed struct(u8) {
    special: bool = false,
    /// White space before it, or behind it, belongs to it.
    lstrip: bool = false,
    rstrip: bool = false,
    /// It is none where a character of \w stands beside it.
    single_word: bool = false,
    /// It is looked for in normalised text.
    normalized: bool = false,
    /// It stands in normalised text as it is: SentencePiece's user-defined symbols.
    literal: bool = false,
    _: u2 = 0,
};

/// What a choice says about a name.
pub const Choice = enum(u8) {
    /// It is not looked for, so a shorter name may stand there.
    unsought = 0,
    found = 1,
    /// It is looked for, and then it is text.
    dropped = 2,
    _,
};

/// Names with what they mean.
pub const Added = struct {
    names: Names,
    ids: []const u32,
    flags: []const Flags,

    /// As `Names.init`; everything is copied.
    pub fn init(
        gpa: Allocator,
        names: []const u8,
        lengths: []const u32,
        places: ?[]const u32,
        ids: []const u32,
        flags: []const Flags,
    ) Allocator.Error!Added {
        var sorted: Names = try .init(gpa, names, lengths, places);
        errdefer sorted.deinit(gpa);
        const numbers = try gpa.dupe(u32, ids);
        errdefer gpa.free(numbers);
        return .{ .names = sorted, .ids = numbers, .flags = try gpa.dupe(Flags, flags) };
    }

    pub fn deinit(self: *Added, gpa: Allocator) void {
        self.names.deinit(gpa);
        gpa.free(self.ids);
        gpa.free(self.flags);
        self.* = undefined;
    }

    /// Those in `text` that a choice wants; none if it is null.
    pub fn in(self: *const Added, text: []const u8, choice: ?[]const u8) Matches {
        return .{ .added = self, .text = text, .choice = choice };
    }
};

/// An added token in a text, with the white space that it takes.
pub const Found = struct { start: usize, end: usize, id: u32 };

/// The added tokens of a text, in order. They may overlap: what a token takes of the white space
/// behind it does not hide a name that begins there. Text between the end of one and the start of
/// the next, if there is any, is a segment.
pub const Matches = struct {
    added: *const Added,
    text: []const u8,
    choice: ?[]const u8,
    /// Where the search goes on: behind the last name, also if that was refused.
    index: usize = 0,
    /// Where the last one ended, with its white space.
    end: usize = 0,
    /// A run of white space that is known.
    space_start: usize = 0,
    space_end: usize = 0,

    pub fn next(self: *Matches) ?Found {
        const choice = self.choice orelse return null;
        const names = &self.added.names;
        while (names.find(self.text, self.index, choice)) |match| {
            self.index = match.end;
            const flags = self.added.flags[match.index];
            if (choice[names.places[match.index]] == @intFromEnum(Choice.dropped)) continue;
            if (flags.single_word and self.isInWord(match)) continue;
            const start = if (flags.lstrip) self.spaceStart(match.start) else match.start;
            const end = if (flags.rstrip) self.spaceEnd(match.end) else match.end;
            // All of it was taken by the token before. (Hugging Face's library fails here.)
            if (start > end) continue;
            self.end = end;
            return .{ .start = start, .end = end, .id = self.added.ids[match.index] };
        }
        return null;
    }

    fn isInWord(self: *const Matches, match: Names.Match) bool {
        const text = self.text;
        if (match.start > 0 and
            unicode.isWord(unicode.decodeBefore(text, match.start).code_point)) return true;
        return match.end < text.len and unicode.isWord(unicode.decode(text, match.end).code_point);
    }

    /// Where the white space before `index` begins that no other token took.
    fn spaceStart(self: *const Matches, index: usize) usize {
        var start = index;
        while (start > self.end) {
            const char = unicode.decodeBefore(self.text, start);
            if (!unicode.class(char.code_point).space) break;
            start -= char.len;
        }
        return @max(start, self.end);
    }

    fn spaceEnd(self: *Matches, index: usize) usize {
        if (self.space_start <= index and index < self.space_end) return self.space_end;
        var end = index;
        while (end < self.text.len) {
            const char = unicode.decode(self.text, end);
            if (!unicode.class(char.code_point).space) break;
            end += char.len;
        }
        self.space_start = index;
        self.space_end = end;
        return end;
    }
};

fn expectFound(
    added: *const Added,
    text: []const u8,
    choice: []const u8,
    all: []const Found,
) !void {
    var matches = added.in(text, choice);
    for (all) |expected| try std.testing.expectEqualDeep(@as(?Found, expected), matches.next());
    try std.testing.expectEqual(@as(?Found, null), matches.next());
}

test "added: the leftmost and then the longest wanted name is found" {
    const gpa = std.testing.allocator;
    var added: Added = try .init(
        gpa,
        "<|ab|><|a|><|a|>b[x",
        &.{ 6, 5, 6, 2 },
        null,
        &.{ 12, 10, 11, 13 },
        &@as([4]Flags, @splat(.{})),
    );
    defer added.deinit(gpa);
    const filler = "." ** 150;
    const cases = [_]struct { []const u8, *const [4]u8, ?Found }{
        .{ "..<|a|>b", "\x01\x01\x01\x01", .{ .start = 2, .end = 8, .id = 11 } },
        .{ "..<|a|>b", "\x01\x01\x00\x01", .{ .start = 2, .end = 7, .id = 10 } },
        .{ "..<|a|>b", "\x01\x01\x02\x01", null },
        .{ "<|<|ab|>", "\x01\x01\x01\x01", .{ .start = 2, .end = 8, .id = 12 } },
        .{ "<|<|ab|>[x", "\x00\x00\x00\x01", .{ .start = 8, .end = 10, .id = 13 } },
        .{ filler ++ "[x" ++ filler, "\x01\x01\x01\x01", .{ .start = 150, .end = 152, .id = 13 } },
        .{ "<|ab|", "\x01\x01\x01\x01", null },
        .{ "", "\x01\x01\x01\x01", null },
    };
    for (cases) |case| {
        try expectFound(&added, case[0], case[1], if (case[2]) |found| &.{found} else &.{});
    }
}

test "added: a name that is refused hides those that begin inside it" {
    const gpa = std.testing.allocator;
    var added: Added = try .init(
        gpa,
        "abcbcdde",
        &.{ 3, 3, 2 },
        null,
        &.{ 7, 8, 9 },
        &.{ .{ .single_word = true }, .{}, .{} },
    );
    defer added.deinit(gpa);
    const all = "\x01\x01\x01";
    try expectFound(&added, "abcde", all, &.{.{ .start = 3, .end = 5, .id = 9 }});
    try expectFound(&added, "abc.", all, &.{.{ .start = 0, .end = 3, .id = 7 }});
    try expectFound(&added, "\u{e9}abc.bcd", all, &.{.{ .start = 6, .end = 9, .id = 8 }});
}

test "added: white space goes to the token before it, and hides no name" {
    const gpa = std.testing.allocator;
    var added: Added = try .init(
        gpa,
        " b<a><b>",
        &.{ 2, 3, 3 },
        null,
        &.{ 7, 8, 9 },
        &.{ .{}, .{ .rstrip = true }, .{ .lstrip = true } },
    );
    defer added.deinit(gpa);
    const all = "\x01\x01\x01";
    try expectFound(&added, "<a>  b", all, &.{
        .{ .start = 0, .end = 5, .id = 8 }, .{ .start = 4, .end = 6, .id = 7 },
    });
    try expectFound(&added, "<a> \u{3000}<b>x\t <b>", all, &.{
        .{ .start = 0, .end = 7, .id = 8 },
        .{ .start = 7, .end = 10, .id = 9 },
        .{ .start = 11, .end = 16, .id = 9 },
    });
}

test "added: the search for many first bytes finds what a plain search does" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..300) |_| {
        var set: std.StringArrayHashMapUnmanaged(void) = .empty;
        defer set.deinit(gpa);
        var letters: [200]u8 = undefined;
        for (&letters) |*byte| byte.* = random.intRangeAtMost(u8, 'a', 'a' + random.int(u8) % 60);
        for (0..1 + random.uintLessThan(usize, 40)) |_| {
            const start = random.uintLessThan(usize, letters.len - 4);
            try set.put(gpa, letters[start..][0 .. 1 + random.uintLessThan(usize, 4)], {});
        }
        const names = set.keys();
        std.mem.sort([]const u8, names, {}, isLess);
        var lengths: [40]u32 = undefined;
        for (names, lengths[0..names.len]) |name, *length| length.* = @intCast(name.len);
        const joined = try std.mem.concat(gpa, u8, names);
        defer gpa.free(joined);
        var all: Names = try .init(gpa, joined, lengths[0..names.len], null);
        defer all.deinit(gpa);
        var choice: [40]u8 = undefined;
        for (&choice) |*byte| byte.* = random.uintLessThan(u8, 3);
        var text: [300]u8 = undefined;
        for (&text) |*byte| byte.* = letters[random.uintLessThan(usize, 20)] +% random.int(u8) % 9;
        for (0..text.len) |start| {
            try std.testing.expectEqualDeep(
                findSlowly(names, &text, start, &choice),
                all.find(&text, start, &choice),
            );
        }
    }
}

fn findSlowly(
    names: []const []const u8,
    text: []const u8,
    from: usize,
    choice: []const u8,
) ?Names.Match {
    for (from..text.len) |start| {
        var best: ?Names.Match = null;
        for (names, 0..) |name, index| {
            if (choice[index] == 0 or !std.mem.startsWith(u8, text[start..], name)) continue;
            if (best == null or name.len > best.?.end - start) {
                best = .{ .start = start, .end = start + name.len, .index = index };
            }
        }
        if (best != null) return best;
    }
    return null;
}

fn isLess(_: void, a: []const u8, b: []const u8) bool {
    return std.mem.lessThan(u8, a, b);
}
