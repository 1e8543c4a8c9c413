//! Text → added tokens: the position of the next one, leftmost and then longest.
//!
//! The token texts are sorted, so those with a common prefix are a range. A candidate is narrowed
//! down byte by byte with two binary searches. If token texts and input make that slow, an
//! automaton takes over (added/longest.zig). Nearly all text is skipped by checking two bytes at 64
//! positions at once, so hundreds of added tokens are free where none occurs. Each token text
//! belongs to one of eight buckets. Four nibble tables give the buckets that a byte can begin or
//! continue (the idea is Hyperscan's Teddy).
//!
//! The rules for stripping and rejecting matches are Hugging Face's. `Matches` implements them.

const std = @import("std");
const platform = @import("platform.zig");
const vector = platform.vector;
const examples = @import("examples.zig").examples;
const Allocator = std.mem.Allocator;
const Filter = @import("added/filter.zig").Filter;
const Longest = @import("added/longest.zig").Longest;
const Place = @import("normalize.zig").Place;
const unicode = @import("unicode.zig");

/// Token texts to search for, without their meaning.
pub const Names = struct {
    /// Sorted and concatenated.
    bytes: []const u8,
    ends: []const u32,
    /// The index of each token text in a choice.
    places: []const u32,
    /// The token texts that begin with byte b are those from `firsts[b]` to before `firsts[b + 1]`.
    firsts: [257]u32,
    /// Set if all token texts begin with the same byte. Then the search is a plain byte search.
    only_first: ?u8,
    /// Length of the longest token text in bytes.
    len_max: usize,
    filter: Filter,

    pub const Match = struct { start: usize, end: usize, index: usize };

    /// Whether `lengths` splits `names` into texts that are sorted, distinct and not empty.
    pub fn areValid(names: []const u8, lengths: []const u32) bool {
        var rest = names;
        var last: []const u8 = "";
        for (lengths) |length| {
            if (length > rest.len) return false;
            if (std.mem.order(u8, last, rest[0..length]) != .lt) return false;
            last = rest[0..length];
            rest = rest[length..];
        }
        return rest.len == 0 and names.len <= std.math.maxInt(u32);
    }

    /// `names` must be sorted, distinct and not empty; `lengths` splits them. Without `places` they
    /// are in the order of a choice. All are copied.
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

    /// Iterates over all non-overlapping matches from `start` whose byte in `choice` is not zero.
    /// `effort` must only be used for these token texts and this choice.
    pub fn search(
        self: *const Names,
        text: []const u8,
        start: usize,
        choice: []const u8,
        effort: *Effort,
    ) Search {
        if (effort.longest) |longest| longest.forget();
        return .{
            .names = self,
            .text = text,
            .choice = choice,
            .effort = effort,
            .index = start,
            .block = start -% vector.len,
        };
    }

    const Walk = struct { longest: ?usize, len: usize };

    /// Returns the longest match at the start of `text`, and the number of bytes examined.
    fn walk(self: *const Names, text: []const u8, choice: []const u8) Walk {
        var low: usize = self.firsts[text[0]];
        var high: usize = self.firsts[@as(usize, text[0]) + 1];
        var longest: ?usize = null;
        for (text, 0..) |byte, depth| {
            if (low == high) return .{ .longest = longest, .len = depth };
            if (depth > 0) {
                // Fast path: mostly all candidates continue with the same byte.
                const first, const last = .{ self.name(low)[depth], self.name(high - 1)[depth] };
                if (byte < first or byte > last) return .{ .longest = longest, .len = depth };
                if (first != last) {
                    low = self.bound(low, high, depth, byte, .before);
                    high = self.bound(low, high, depth, byte, .after);
                    if (low == high) return .{ .longest = longest, .len = depth };
                }
            }
            // Of candidates with this prefix, the one that ends here is sorted first.
            if (self.name(low).len == depth + 1) {
                if (choice[self.places[low]] != 0) longest = low;
                low += 1;
            }
        }
        return .{ .longest = longest, .len = text.len };
    }

    /// Among token texts with the same first `depth` bytes (and longer ones), returns where those
    /// with `byte` next begin or end.
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

/// The cost of searches for the same token texts, and the automaton if the cost was too high.
pub const Effort = struct {
    gpa: Allocator,
    /// Bytes examined in excess of the allowance per position and match.
    debt: usize = 0,
    /// Excess up to which the cost is not reconsidered.
    patience: usize = 1 << 12,
    longest: ?*Longest = null,

    /// Allowance in bytes for one position.
    const free_len = 16;
    /// Building the automaton takes about as long as examining each byte of a token text this many
    /// times. The same holds for processing a byte of text with it.
    const share = 8;

    pub fn deinit(self: *Effort) void {
        const longest = self.longest orelse return;
        longest.deinit(self.gpa);
        self.gpa.destroy(longest);
    }

    /// Builds the automaton if that pays off for a search that has reached `index`.
    noinline fn reconsider(self: *Effort, found: *const Search, index: usize) void {
        self.patience = 2 * self.debt;
        if (self.debt < share * @max(index, found.names.bytes.len)) return;
        // Without memory the plain search continues.
        const longest = self.gpa.create(Longest) catch return;
        longest.* = Longest.init(self.gpa, found.names, found.choice) catch
            return self.gpa.destroy(longest);
        self.longest = longest;
    }
};

/// Iterates over the matches in a text, leftmost and then longest.
pub const Search = struct {
    names: *const Names,
    text: []const u8,
    choice: []const u8,
    effort: *Effort,
    /// End of the last match.
    index: usize,
    /// Start of the current block of 64 bytes, and the candidate positions in it.
    block: usize,
    hits: u64 = 0,

    pub fn next(self: *Search) ?Names.Match {
        const names = self.names;
        if (self.effort.longest == null) {
            if (names.ends.len == 0) return null;
            const found = if (names.only_first) |byte| self.nextOf(byte) else self.nextHit();
            // The text is finished, or the automaton takes over.
            if (found != null or self.effort.longest == null) return found;
        }
        const at, const which = self.effort.longest.?.find(self.text, self.index) orelse {
            self.index = self.text.len;
            return null;
        };
        return self.take(at, which);
    }

    fn nextOf(self: *Search, byte: u8) ?Names.Match {
        while (std.mem.indexOfScalarPos(u8, self.text, self.index, byte)) |at| {
            if (self.matchAt(at)) |match| return match;
            self.index = at + 1;
            if (self.effort.longest != null) return null;
        }
        self.index = self.text.len;
        return null;
    }

    fn nextHit(self: *Search) ?Names.Match {
        while (true) {
            while (self.hits != 0) {
                const at = self.block + @ctz(self.hits);
                self.hits &= self.hits - 1;
                if (self.matchAt(at)) |match| {
                    // Candidates inside the match are dropped.
                    const passed = match.end - self.block;
                    self.hits &= if (passed < vector.len) ~vector.low(@intCast(passed)) else 0;
                    return match;
                }
                self.index = at + 1;
                if (self.effort.longest != null) return null;
            }
            self.index = @max(self.block +% vector.len, self.index);
            if (self.index >= self.text.len) return null;
            self.block = self.index;
            self.hits = self.names.filter.hits(self.text[self.index..]);
        }
    }

    fn matchAt(self: *Search, at: usize) ?Names.Match {
        const found = self.names.walk(self.text[at..], self.choice);
        const match = if (found.longest) |which| self.take(at, which) else null;
        const worth = Effort.free_len + if (match) |some| some.end - some.start else 0;
        if (found.len > worth) {
            self.effort.debt += found.len - worth;
            if (self.effort.debt > self.effort.patience) self.effort.reconsider(self, at);
        }
        return match;
    }

    inline fn take(self: *Search, at: usize, which: usize) Names.Match {
        self.index = at + self.names.name(which).len;
        return .{ .start = at, .end = self.index, .index = which };
    }
};

pub const Flags = packed struct(u8) {
    special: bool = false,
    /// Adjacent whitespace before it, or after it, belongs to it.
    lstrip: bool = false,
    rstrip: bool = false,
    /// It does not match next to a \w character.
    single_word: bool = false,
    /// It matches normalized text.
    normalized: bool = false,
    /// It matches normalized text but is not normalized itself: SentencePiece's user-defined
    /// symbols.
    literal: bool = false,
    _: u2 = 0,
};

/// The value of a choice for an added token.
pub const Choice = enum(u8) {
    /// Not searched for, so a shorter one may match at the same position.
    unsought = 0,
    found = 1,
    /// Searched for, but its matches are ordinary text.
    dropped = 2,
    _,
};

/// Added tokens: their texts, ids and flags.
pub const Added = struct {
    names: Names,
    ids: []const u32,
    flags: []const Flags,

    /// See `Names.init`. Everything is copied.
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

    /// Iterates over the matches in `text` that a choice selects. `effort` must only be used for
    /// these added tokens and this choice.
    pub fn in(self: *const Added, text: []const u8, choice: []const u8, effort: *Effort) Matches {
        return self.behind(text, 0, choice, effort);
    }

    /// The same from `start`, which is the end of a token or segment.
    pub fn behind(
        self: *const Added,
        text: []const u8,
        start: usize,
        choice: []const u8,
        effort: *Effort,
    ) Matches {
        const search = self.names.search(text, start, choice, effort);
        return .{ .added = self, .text = text, .search = search, .end = start };
    }

    /// The same for several ranges in order. A match lies in one of them.
    pub fn within(
        self: *const Added,
        text: []const u8,
        ranges: []const Place,
        choice: []const u8,
        effort: *Effort,
    ) Matches {
        const search = self.names.search(text[0..0], 0, choice, effort);
        return .{ .added = self, .text = text, .search = search, .ranges = ranges };
    }
};

/// A match with the whitespace that it strips.
pub const Found = struct { start: usize, end: usize, id: u32 };

/// Iterates over the matches in a text, in order. They may overlap: whitespace stripped after a
/// match does not hide an added token that begins there. Text between the end of one match and the
/// start of the next is a segment.
pub const Matches = struct {
    added: *const Added,
    text: []const u8,
    /// Continues after the last match, even if that was rejected.
    search: Search,
    /// The ranges to search after this one.
    ranges: []const Place = &.{},
    /// End of the last match, including its whitespace.
    end: usize = 0,
    /// The last run of whitespace that was found.
    space_start: usize = 0,
    space_end: usize = 0,

    pub fn next(self: *Matches) ?Found {
        while (self.nextMatch()) |match| {
            const flags = self.added.flags[match.index];
            const chosen = self.search.choice[self.added.names.places[match.index]];
            if (chosen == @intFromEnum(Choice.dropped)) continue;
            if (flags.single_word and self.isInWord(match)) continue;
            const start = if (flags.lstrip) self.spaceStart(match.start) else match.start;
            const end = if (flags.rstrip) self.spaceEnd(match.end) else match.end;
            // The previous token has stripped all of it. (Hugging Face's library fails here.)
            if (start > end) continue;
            self.end = end;
            return .{ .start = start, .end = end, .id = self.added.ids[match.index] };
        }
        return null;
    }

    fn nextMatch(self: *Matches) ?Names.Match {
        while (true) {
            if (self.search.next()) |match| return match;
            if (self.ranges.len == 0) return null;
            const range, const last = .{ self.ranges[0], &self.search };
            self.ranges = self.ranges[1..];
            const names, const text = .{ last.names, self.text[0..range.end] };
            self.search = names.search(text, range.start, last.choice, last.effort);
        }
    }

    fn isInWord(self: *const Matches, match: Names.Match) bool {
        const text = self.text;
        if (match.start > 0 and
            unicode.isWord(unicode.decodeBefore(text, match.start).code_point)) return true;
        return match.end < text.len and unicode.isWord(unicode.decode(text, match.end).code_point);
    }

    /// Returns the start of the whitespace before `index` that no other match has stripped.
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
        const text = self.text;
        var end = index;
        while (end < text.len) {
            const char = unicode.decode(text, end);
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
    var effort: Effort = .{ .gpa = std.testing.allocator };
    defer effort.deinit();
    var matches = added.in(text, choice, &effort);
    for (all) |expected| try std.testing.expectEqualDeep(@as(?Found, expected), matches.next());
    try std.testing.expectEqual(@as(?Found, null), matches.next());
}

test "added: the leftmost and then longest selected token is found" {
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

test "added: a rejected match hides those that begin inside it" {
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

test "added: whitespace belongs to the token before it, and hides no match" {
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

test "added: matches in ranges do not cross their ends, but see the text around them" {
    const gpa = std.testing.allocator;
    var added: Added = try .init(
        gpa,
        "<a><a>bb",
        &.{ 3, 4, 1 },
        null,
        &.{ 7, 8, 9 },
        &.{ .{ .rstrip = true }, .{}, .{ .single_word = true } },
    );
    defer added.deinit(gpa);
    const text = "<a> <a>b b<a>.b";
    const cases = [_]struct { []const Place, []const Found }{
        .{ &.{}, &.{} },
        .{ &.{.{ .start = 0, .end = 15 }}, &.{
            .{ .start = 0, .end = 4, .id = 7 },
            .{ .start = 4, .end = 8, .id = 8 },
            .{ .start = 9, .end = 10, .id = 9 },
            .{ .start = 10, .end = 13, .id = 7 },
            .{ .start = 14, .end = 15, .id = 9 },
        } },
        // The whitespace after the first match, and the letter after the second, are outside.
        .{ &.{
            .{ .start = 0, .end = 3 },
            .{ .start = 4, .end = 7 },
            .{ .start = 8, .end = 12 },
        }, &.{
            .{ .start = 0, .end = 4, .id = 7 },
            .{ .start = 4, .end = 7, .id = 7 },
            .{ .start = 9, .end = 10, .id = 9 },
        } },
    };
    for (cases) |case| {
        var effort: Effort = .{ .gpa = gpa };
        defer effort.deinit();
        var matches = added.within(text, case[0], "\x01\x01\x01", &effort);
        for (case[1]) |found| try std.testing.expectEqualDeep(found, matches.next().?);
        try std.testing.expectEqual(null, matches.next());
    }
}

test "added: the search for many first bytes equals a plain search" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..examples(300)) |_| {
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
        for (0..text.len) |start| try expectNames(&all, &text, start, &choice);
    }
}

/// Compares with a plain search, without the automaton and with it.
fn expectNames(names: *const Names, text: []const u8, from: usize, choice: []const u8) !void {
    const gpa = std.testing.allocator;
    for ([_]bool{ false, true }) |has_automaton| {
        var effort: Effort = .{ .gpa = gpa };
        defer effort.deinit();
        if (has_automaton) {
            effort.longest = try gpa.create(Longest);
            effort.longest.?.* = try .init(gpa, names, choice);
        }
        var search = names.search(text, from, choice, &effort);
        var index = from;
        // The first few suffice, and they are checked for each start.
        for (0..3) |_| {
            const expected = findSlowly(names, text, index, choice);
            try std.testing.expectEqualDeep(expected, search.next());
            index = if (expected) |match| match.end else text.len;
        }
    }
}

test "added: long common prefixes do not slow the search down" {
    const gpa = std.testing.allocator;
    const letters = "a" ** 300 ++ "b";
    var joined: std.ArrayList(u8) = .empty;
    defer joined.deinit(gpa);
    var lengths: [301]u32 = undefined;
    // Sorted: "a", then "aa…ab" down to "ab".
    try joined.append(gpa, 'a');
    lengths[0] = 1;
    for (lengths[1..], 0..) |*length, index| {
        try joined.appendSlice(gpa, letters[index..]);
        length.* = @intCast(letters.len - index);
    }
    var names: Names = try .init(gpa, joined.items, &lengths, null);
    defer names.deinit(gpa);
    var choice: [301]u8 = @splat(1);
    const text = "a" ** 20_000 ++ "b" ++ "a" ** 150 ++ "bb" ++ "a" ** 299 ++ "b";
    for ([_]u8{ 1, 0 }) |first| {
        choice[0] = first;
        // The same without memory, but slower.
        var failing: std.testing.FailingAllocator = .init(gpa, .{ .fail_index = 0 });
        var efforts = [_]Effort{ .{ .gpa = gpa }, .{ .gpa = failing.allocator() } };
        defer for (&efforts) |*effort| effort.deinit();
        var searches: [2]Search = undefined;
        for (&searches, &efforts) |*search, *effort| {
            search.* = names.search(text, 0, &choice, effort);
        }
        while (searches[1].next()) |expected| {
            try std.testing.expectEqualDeep(expected, searches[0].next().?);
        }
        try std.testing.expectEqual(null, searches[0].next());
        try std.testing.expect(efforts[0].longest != null and efforts[1].longest == null);
        try std.testing.expect(efforts[0].debt < 1_000_000 and efforts[1].debt > 5_000_000);
    }
}

fn findSlowly(
    names: *const Names,
    text: []const u8,
    from: usize,
    choice: []const u8,
) ?Names.Match {
    for (from..text.len) |start| {
        var best: ?Names.Match = null;
        for (0..names.ends.len) |index| {
            const name = names.name(index);
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
