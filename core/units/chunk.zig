//! Up to 64 characters of three bytes → the ends of the fragments among them.
//!
//! The `About` of each character and the seams of each pair of neighbours are first gathered as bit
//! masks. Most split points are then decided without branches.

const std = @import("std");
const merge = @import("../merge.zig");
const Error = merge.Error;
const Merger = merge.Merger;
const caches = @import("../cache.zig");
const unicode = @import("../unicode.zig");
const characters = @import("characters.zig");
const seams_ = @import("seams.zig");
const Goal = @import("../cache.zig").Goal;
const About = characters.About;
const Entry = characters.Entry;
const Characters = characters.Characters;
const anything = seams_.Seams.anything;

/// Maximum number of characters: one per bit of a 64-bit word.
pub const len_max = 64;

/// Each bit refers to the position after one character.
pub const Decided = struct {
    /// A fragment ends here.
    cuts: u64,
    /// A token may cover this boundary and contain part of a neighbouring character.
    doubts: u64,
    /// The character has several ids.
    many: u64,
};

/// Up to 64 characters and the data looked up for them.
pub const Chunk = struct {
    text: []const u8,
    count: usize,
    /// Number of bytes of the first character. All others have three.
    first_len: usize,
    code_points: [len_max + 4]u32,
    /// The entry of each character, and the table index of each pair of neighbours.
    entries: [len_max]u32,
    places: [len_max]u32,
    /// The first id of each character, for most of them the only one.
    first_ids: [len_max + 4]u32,
    about: [len_max]u8,
    joins: [len_max]u8,
    /// Keys and buckets of the fragments that are looked up, at the index of their first character.
    keys: [len_max]caches.Key,
    lines: [len_max]*caches.Line,

    const Bytes = @Vector(16, u8);
    const Four = @Vector(4, u32);

    pub inline fn start(self: *const Chunk, at: usize) usize {
        return if (at == 0) 0 else self.first_len + 3 * (at - 1);
    }

    pub inline fn charAt(self: *const Chunk, at: usize) characters.Char {
        return .{
            .code_point = self.code_points[at],
            .bytes = self.text[self.start(at)..self.start(at + 1)],
            .about = @bitCast(self.about[at]),
        };
    }

    pub inline fn idCount(self: *const Chunk, at: usize) usize {
        return self.about[at] & About.count_mask;
    }

    /// Decodes characters from the start of `text` up to the first one that does not have three
    /// bytes.
    pub inline fn read(self: *Chunk, text: []const u8, is_first: bool) void {
        const spread = [16]i32{ 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1 };
        const zero: @Vector(1, u8) = @splat(0);
        // A leading character of one byte is stored before the others.
        const before: usize = @intFromBool(is_first and text[0] < 0x80);
        self.text = text;
        self.first_len = 3 - 2 * before;
        self.code_points[0] = text[0];
        const wide_max = @min((text.len - before) / 3, len_max - before);
        var wrong: u64 = 0;
        var at: usize = 0;
        while (at < wide_max and wrong == 0) : (at += 4) {
            const bytes: @Vector(16, u8) = text[before + 3 * at ..].ptr[0..16].*;
            const words: Four = @bitCast(@shuffle(u8, bytes, zero, spread));
            const code_points = ((words & splat(0xF)) << splat(12)) |
                (words >> splat(2) & splat(0xFC0)) | (words >> splat(16) & splat(0x3F));
            self.code_points[before + at ..][0..4].* = code_points;
            // Rejects characters not of three bytes, overlong encodings, surrogates, and the
            // replacement character, which is also the result of decoding invalid UTF-8.
            const shape = (words & splat(0xC0C0F0)) != splat(0x8080E0);
            const block = code_points & splat(0xF800);
            const bad = shape | (block == splat(0)) | (block == splat(0xD800)) |
                (code_points == splat(unicode.replacement));
            wrong |= @as(u64, @as(u4, @bitCast(bad))) << @intCast(at);
        }
        self.count = @min(@as(usize, @ctz(wrong)), wide_max) + before;
    }

    /// Returns a bit for the last character of each pretoken in the chunk, which begins at `base`.
    pub inline fn endCuts(self: *const Chunk, ends: []const u32, base: usize) u64 {
        const chunk_end = base + self.start(self.count);
        var bits: u64 = 0;
        for (ends) |end| {
            if (end > chunk_end) break;
            std.debug.assert((end - base - self.first_len) % 3 == 0);
            bits |= @as(u64, 1) << @intCast((end - base - self.first_len) / 3);
        }
        return bits;
    }

    /// Looks up the facts about the characters and about each pair of neighbours.
    pub inline fn lookUp(
        self: *Chunk,
        merger: *Merger,
        chars: *const Characters,
    ) Error!Flags {
        // Local copies: the compiler can assume that they do not change.
        const entries = chars.entries;
        const pairs = chars.seams.pairs;
        const factors = chars.seams.factors;
        var at: usize = 0;
        while (at < self.count) : (at += 4) {
            const left: Four = self.code_points[at..][0..4].*;
            // The last character has no right neighbour. Its lane has an arbitrary value.
            const right: Four = self.code_points[at + 1 ..][0..4].*;
            const hashes = left *% splat(factors[0]) +% right *% splat(factors[1]);
            self.places[at..][0..4].* = hashes >> @splat(pairs.shift);
        }
        for (0..self.count) |index| {
            const entry = @atomicLoad(Entry, &entries[self.code_points[index]], .acquire);
            self.entries[index] = @bitCast(entry);
            self.joins[index] = @truncate(pairs.from(self.places[index]));
        }
        const flags = self.split();
        if (~flags.known & lowTo(@intCast(self.count - 1)) == 0) return flags;
        for (0..self.count) |index| {
            const char = self.charAt(index);
            _ = try chars.aboutOf(merger, char.code_point, char.bytes);
            self.entries[index] = @bitCast(entries[char.code_point]);
        }
        return self.split();
    }

    /// One bit per character. Bits after the last character are undefined.
    const Flags = struct {
        known: u64 = 0,
        many: u64 = 0,
        joins: u64 = 0,
        alone: u64 = 0,
        doubt_behind: u64 = 0,
        doubt_before: u64 = 0,
        doubt_last: u64 = 0,
        doubt_first: u64 = 0,
    };

    /// Splits the entries into bit masks, 16 at a time, because many chunks have no more.
    inline fn split(self: *Chunk) Flags {
        var flags: Flags = .{};
        var at: usize = 0;
        while (at < self.count) : (at += 16) {
            const entries: @Vector(16, u32) = self.entries[at..][0..16].*;
            const about: Bytes = @truncate(entries);
            const joins: Bytes = self.joins[at..][0..16].*;
            self.first_ids[at..][0..16].* = entries >> @splat(8);
            self.about[at..][0..16].* = about;
            const place: u6 = @intCast(at);
            flags.known |= bitsOf(about, @bitCast(About{ .count = 3 })) << place;
            flags.many |= bitsOf(about, @bitCast(About{ .count = 2 })) << place;
            flags.joins |= bitsOf(joins, seams_.joined) << place;
            flags.alone |= bitsOf(joins, seams_.joined_alone) << place;
            inline for (.{ "behind", "before", "last", "first" }) |name| {
                const doubt: u8 = @bitCast(@field(About, "doubt_" ++ name));
                @field(flags, "doubt_" ++ name) |= bitsOf(about, doubt) << place;
            }
        }
        return flags;
    }

    /// Writes the ids of fragments of one character each, and returns their number.
    pub inline fn putSingles(
        self: *const Chunk,
        comptime goal: Goal,
        chars: *const Characters,
        seams: Decided,
        first: usize,
        end: usize,
        out: [*]u32,
    ) usize {
        if (first == end) return 0;
        if (seams.many >> @intCast(first) << @intCast(64 - (end - first)) == 0) {
            var at = first;
            if (goal == .ids) while (at < end) : (at += 4) {
                out[at - first ..][0..4].* = self.first_ids[at..][0..4].*;
            };
            return end - first;
        }
        const values = chars.ids;
        var written: usize = 0;
        for (first..end) |at| {
            if (goal == .ids) out[written..][0..4].* = values[self.code_points[at]];
            written += self.idCount(at);
        }
        return written;
    }

    /// Decides the split points up to the last end of a pretoken, or all if no pretoken ends here.
    pub inline fn decide(
        self: *const Chunk,
        chars: *const Characters,
        flags: Flags,
        end_cuts: u64,
    ) Decided {
        const last = bitAt(self.count - 1);
        const inner = (last - 1) & ~end_cuts;
        const joins = flags.joins & inner;
        // The left neighbour, the right one, or both together are in doubt.
        const doubtful = flags.doubt_behind | flags.doubt_before >> 1 |
            (flags.doubt_last & flags.doubt_first >> 1);
        // A chunk begins at a split point, so the text before it is irrelevant. The text after it
        // may matter.
        const known = if (end_cuts & last != 0) joins else joins & ~(last >> 1);
        const free = (~joins & inner) | self.freeAround(chars, known & ~flags.alone);
        const doubts = self.forbidden(chars, doubtful & inner);
        const below_end = if (end_cuts == 0) inner else lowTo(@intCast(63 - @clz(end_cuts)));
        return .{
            .cuts = ((free & ~doubts) | end_cuts) & below_end,
            .doubts = doubts,
            .many = flags.many,
        };
    }

    /// Returns the pairs in `joins` that no token contains together with their context.
    inline fn freeAround(self: *const Chunk, chars: *const Characters, joins: u64) u64 {
        var free: u64 = 0;
        var rest = joins;
        while (rest != 0) : (rest &= rest - 1) {
            const at: usize = @ctz(rest);
            const before = if (at == 0) anything else self.code_points[at - 1];
            const behind = if (at + 2 >= self.count) anything else self.code_points[at + 2];
            const left, const right = .{ self.code_points[at], self.code_points[at + 1] };
            const joins_ = chars.seams.joinsAround(left, right, before, behind);
            free |= if (joins_ != 0) 0 else rest & -%rest;
        }
        return free;
    }

    /// Returns the boundaries in `doubts` that must not be split, because a token with part of a
    /// character may cover them.
    inline fn forbidden(self: *const Chunk, chars: *const Characters, doubts: u64) u64 {
        var bits: u64 = 0;
        var rest = doubts;
        while (rest != 0) : (rest &= rest - 1) {
            const at: usize = @ctz(rest);
            const may_cut = chars.mayCut(self.charAt(at), self.charAt(at + 1));
            bits |= if (may_cut) 0 else rest & -%rest;
        }
        return bits;
    }

    /// Returns a bit for each byte that has a bit of `mask` set.
    inline fn bitsOf(bytes: Bytes, mask: u8) u64 {
        const masks: Bytes = @splat(mask);
        return @as(u16, @bitCast(bytes & masks != @as(Bytes, @splat(0))));
    }

    inline fn splat(number: u32) Four {
        return @splat(number);
    }
};

pub inline fn bitAt(index: usize) u64 {
    return @as(u64, 1) << @intCast(index);
}

/// Returns a mask of the bits up to `index`, inclusive.
pub inline fn lowTo(index: u6) u64 {
    return @as(u64, std.math.maxInt(u64)) >> @intCast(63 - index);
}
