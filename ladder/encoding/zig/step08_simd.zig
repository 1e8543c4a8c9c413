//! Step 8, SIMD: find the end of a word, and the lowest rank, with vectors of 32 lanes.
//!
//! The idea: two loops do the same for each element. One looks for the end of a run of letters, and
//! compares 32 bytes at once. The other looks for the lowest rank. Rank and position form one
//! number, so the minimum of a vector is the next merge, the leftmost of equals. Symbols do not
//! move. A mask has a bit for each start, and its neighbours are found by counting zeros.
//!
//! Costs: a second way for words of 32 bytes or more, which are left to step 7.
//! Saves: the heap, and a look at each character.

const std = @import("std");
const heaps = @import("step07_heap.zig");
const vocabularies = @import("vocabulary.zig");
const words = @import("words.zig");

const none = vocabularies.none;
const lanes = 32;
const position_bits = 6;

pub const Encoder = struct {
    heap: heaps.Encoder,

    pub fn init(vocabulary: vocabularies.Vocabulary) !Encoder {
        return .{ .heap = try .init(vocabulary) };
    }

    pub fn encode(self: *Encoder, text: []const u8, out: []u32) !usize {
        return words.encode(words.ByKinds(Kinds), merge, self, text, out);
    }

    fn merge(self: *Encoder, text: []const u8, from: usize, to: usize, out: []u32) !usize {
        if (to - from >= lanes) return self.heap.merge(text, from, to, out);
        const vocabulary = &self.heap.vocabulary;
        const word = text[from..to];
        var starts = Starts.init(word.len);
        var keys: [lanes]u32 = @splat(none);
        for (0..word.len - 1) |at| keys[at] = keyOf(vocabulary.rank(word[at .. at + 2]), at);
        while (true) {
            const lowest = @reduce(.Min, @as(@Vector(lanes, u32), keys));
            if (lowest == none) break;
            const at = lowest & (1 << position_bits) - 1;
            keys[starts.after(at)] = none;
            starts.remove(starts.after(at));
            const end = starts.after(at);
            const is_last = end == word.len;
            const rank = if (is_last) none else vocabulary.rank(word[at..starts.after(end)]);
            keys[at] = keyOf(rank, at);
            if (at == 0) continue;
            const before = starts.before(at);
            keys[before] = keyOf(vocabulary.rank(word[before..end]), before);
        }
        var count: usize = 0;
        var at: usize = 0;
        while (at < word.len) : (count += 1) {
            const end = starts.after(at);
            out[count] = vocabulary.rank(word[at..end]);
            at = end;
        }
        return count;
    }
};

fn keyOf(rank: u32, at: usize) u32 {
    return if (rank == none) none else rank << position_bits | @as(u32, @intCast(at));
}

/// A bit for the start of each symbol, and one for the end of the word.
pub const Starts = struct {
    mask: u64,

    pub inline fn init(len: usize) Starts {
        return .{ .mask = (@as(u64, 2) << @intCast(len)) - 1 };
    }
    pub inline fn after(self: Starts, at: usize) usize {
        return at + 1 + @ctz(self.mask >> @intCast(at + 1));
    }
    pub inline fn before(self: Starts, at: usize) usize {
        return 63 - @as(usize, @clz(self.mask & (@as(u64, 1) << @intCast(at)) - 1));
    }
    pub inline fn remove(self: *Starts, at: usize) void {
        self.mask &= ~(@as(u64, 1) << @intCast(at));
    }
};

/// Classifies 32 bytes of ASCII at once. Other characters are left to `ScalarKinds`.
pub const Kinds = struct {
    const Bytes = @Vector(lanes, u8);

    pub const kind = words.ScalarKinds.kind;

    pub inline fn runEnd(text: []const u8, start: usize, wanted: words.Kind) usize {
        var at = start;
        while (at + lanes <= text.len) : (at += lanes) {
            const others = ~membersOf(text[at..][0..lanes].*, wanted);
            if (others == 0) continue;
            at += @ctz(others);
            // A character outside ASCII may be of this kind.
            return if (text[at] < 0x80) at else words.ScalarKinds.runEnd(text, at, wanted);
        }
        return words.ScalarKinds.runEnd(text, at, wanted);
    }

    inline fn membersOf(bytes: Bytes, wanted: words.Kind) u32 {
        const letters = inside(bytes | @as(Bytes, @splat(0x20)), 'a', 'z');
        const numbers = inside(bytes, '0', '9');
        const spaces = inside(bytes, '\t', '\r') | bits(bytes == @as(Bytes, @splat(' ')));
        return switch (wanted) {
            .letter => letters,
            .number => numbers,
            .space => spaces,
            .sign => ~(letters | numbers | spaces | inside(bytes, 0x80, 0xFF)),
        };
    }

    inline fn inside(bytes: Bytes, comptime first: u8, comptime last: u8) u32 {
        return bits(bytes -% @as(Bytes, @splat(first)) <= @as(Bytes, @splat(last - first)));
    }

    inline fn bits(members: @Vector(lanes, bool)) u32 {
        return @bitCast(members);
    }
};
