//! Pretokens of characters of three bytes → ids, unit by unit.
//!
//! Chinese, Japanese or Thai text is little else, punctuation included, so many pretokens are
//! taken together: a chunk is up to 64 characters, whose seams are decided before the first unit
//! is taken and without a branch, since which of them are cuts is hard to predict. Pretokens end
//! at cuts too. The next chunk begins at the last cut of the one before.
//!
//! A unit of several characters is merged from their ids, not from their bytes. Where no token
//! reaches into a character from outside, nothing can happen to it before it is whole; and where
//! every merge comes after those of its parts (`PairTable.rising`), making it whole at once
//! changes nothing. The others begin as bytes.

const std = @import("std");
const ids = @import("../ids.zig");
const units = @import("units.zig");
const unicode = @import("../unicode.zig");
const characters = @import("characters.zig");
const merge_short = @import("merge_short.zig");
const About = characters.About;
const caches = @import("cache.zig");
const Cache = caches.Cache;
const Characters = characters.Characters;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const seams_ = @import("../vocabulary/seams.zig");
const anything = seams_.Seams.anything;

pub const Done = struct { pretokens: usize = 0, written: usize = 0 };

/// Encodes the pretokens from `start` on that end at `ends`, none of them inside a character, as
/// long as they hold nothing but such characters; the first of all may be a single byte. Returns
/// how many were done and how many ids they have, which are written to `out` unless that is void.
/// There is room for an id a byte and four more, and 16 bytes can be read behind the last end.
pub fn encode(
    encoder: *ids.Encoder,
    cache: *Cache,
    chars: *const Characters,
    text: [*]const u8,
    start: usize,
    ends: []const u32,
    out: anytype,
) ids.Error!Done {
    const writes = @TypeOf(out) != void;
    var done: Done = .{};
    var written: usize = 0;
    var base = start;
    var chunk: Chunk = undefined;
    const values = chars.ids;
    while (done.pretokens < ends.len and (text[base] >= 0xE0 or base == start)) {
        const pretoken_ends = ends[done.pretokens..];
        chunk.read(text[base..ends[ends.len - 1]], base == start, &chars.seams.factors);
        const end_cuts = chunk.endCuts(pretoken_ends, base);
        // Characters of others, or a unit that is too long.
        if (end_cuts == 0 and chunk.count < chunk_len) break;
        try chunk.lookUp(encoder, chars);
        const seams = chunk.decide(chars, end_cuts);
        if (seams.cuts == 0) break;
        const last_cut: u6 = @intCast(63 - @clz(seams.cuts));
        const several = (seams.cuts << 1 | 1) & ~seams.cuts & lowTo(last_cut);
        chunk.prepareUnits(&encoder.tokenizer.vocabulary, cache, chars, seams, several);
        var first: usize = 0;
        var rest = several;
        while (true) {
            const single_end: usize = if (rest == 0) @as(usize, last_cut) + 1 else @ctz(rest);
            while (first < single_end) : (first += 1) {
                if (writes) out[written..][0..4].* = values[chunk.code_points[first]];
                written += chunk.idCount(first);
            }
            if (rest == 0) break;
            const unit: Unit = .of(&chunk, seams, first);
            written += try unit.encode(encoder, cache, chars, if (writes) out + written else {});
            first = unit.end;
            rest &= rest - 1;
        }
        base += chunk.start(first);
        if (end_cuts == 0) continue;
        done = .{ .pretokens = done.pretokens + @popCount(end_cuts), .written = written };
    }
    return done;
}

/// Whether `encode` is exact for a vocabulary.
pub fn fits(vocabulary: *const Vocabulary) bool {
    return vocabulary.is_closed and vocabulary.pairs.rising;
}

const chunk_len = 64;

/// A bit for each character behind which something is so.
const Decided = struct {
    /// A unit ends there.
    cuts: u64,
    /// Some token may cover the seam and hold a part of a character beside it.
    doubts: u64,
    /// The character has several ids.
    many: u64,
};

/// Up to 64 characters, and what is read behind them.
const Chunk = struct {
    text: []const u8,
    count: usize,
    /// Bytes of the first character: the others have three.
    first_len: usize,
    code_points: [chunk_len + 5]u32,
    /// Parts of the hashes of a character as the left and as the right one of a pair.
    left_hashes: [chunk_len + 5]u32,
    right_hashes: [chunk_len + 5]u32,
    /// The low bytes of the code points, and the high ones.
    low: [chunk_len + 16]u8,
    high: [chunk_len + 16]u8,
    about: [chunk_len]u8,
    joins: [chunk_len]u8,
    /// Of units that are looked up, at the place of their first character.
    keys: [chunk_len]caches.Key,
    lines: [chunk_len]*caches.Line,

    const Bytes = @Vector(chunk_len, u8);
    const Four = @Vector(4, u32);

    inline fn start(self: *const Chunk, at: usize) usize {
        return if (at == 0) 0 else self.first_len + 3 * (at - 1);
    }

    inline fn charAt(self: *const Chunk, at: usize) characters.Char {
        return .{
            .code_point = self.code_points[at],
            .bytes = self.text[self.start(at)..self.start(at + 1)],
            .about = @bitCast(self.about[at]),
        };
    }

    inline fn idCount(self: *const Chunk, at: usize) usize {
        return self.about[at] & About.count_mask;
    }

    /// Decodes characters at the beginning of `text` up to one that has not three bytes.
    inline fn read(self: *Chunk, text: []const u8, is_first: bool, factors: *const [4]u32) void {
        const spread = [16]i32{ 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1 };
        const zero: @Vector(1, u8) = @splat(0);
        // One of a single byte is put before the others.
        const before: usize = @intFromBool(is_first and text[0] < 0x80);
        self.text = text;
        self.first_len = 3 - 2 * before;
        self.code_points[0] = text[0];
        self.low[0], self.high[0] = .{ text[0], 0 };
        self.left_hashes[0] = text[0] *% factors[0];
        self.right_hashes[chunk_len] = 0; // read behind the last of 64
        const wide_max = @min((text.len - before) / 3, chunk_len - before);
        var wrong: u64 = 0;
        var at: usize = 0;
        while (at < wide_max and wrong == 0) : (at += 4) {
            const bytes: @Vector(16, u8) = text[before + 3 * at ..].ptr[0..16].*;
            const words: Four = @bitCast(@shuffle(u8, bytes, zero, spread));
            const code_points = ((words & splat(0xF)) << splat(12)) |
                (words >> splat(2) & splat(0xFC0)) | (words >> splat(16) & splat(0x3F));
            self.code_points[before + at ..][0..4].* = code_points;
            self.left_hashes[before + at ..][0..4].* = code_points *% splat(factors[0]);
            self.right_hashes[before + at ..][0..4].* = code_points *% splat(factors[1]);
            const bytes_of: @Vector(16, u8) = @bitCast(code_points);
            self.low[before + at ..][0..4].* =
                @shuffle(u8, bytes_of, undefined, [4]i32{ 0, 4, 8, 12 });
            self.high[before + at ..][0..4].* =
                @shuffle(u8, bytes_of, undefined, [4]i32{ 1, 5, 9, 13 });
            // Not of three bytes, or too many bytes for the character, or a surrogate, or what
            // stands for bytes that are not UTF-8.
            const shape = (words & splat(0xC0C0F0)) != splat(0x8080E0);
            const block = code_points & splat(0xF800);
            const bad = shape | (block == splat(0)) | (block == splat(0xD800)) |
                (code_points == splat(unicode.replacement));
            wrong |= @as(u64, @as(u4, @bitCast(bad))) << @intCast(at);
        }
        self.count = @min(@as(usize, @ctz(wrong)), wide_max) + before;
    }

    /// A bit for the last character of each pretoken in the chunk, which begins at `base`.
    inline fn endCuts(self: *const Chunk, ends: []const u32, base: usize) u64 {
        const chunk_end = base + self.start(self.count);
        var bits: u64 = 0;
        for (ends) |end| {
            if (end > chunk_end) break;
            std.debug.assert((end - base - self.first_len) % 3 == 0);
            bits |= @as(u64, 1) << @intCast((end - base - self.first_len) / 3);
        }
        return bits;
    }

    /// What is known about the characters and about each of them with the next one.
    inline fn lookUp(self: *Chunk, encoder: *ids.Encoder, chars: *const Characters) ids.Error!void {
        // Copies, which the compiler knows nobody else writes to.
        const all_about = chars.about;
        const pairs = chars.seams.pairs;
        var unknown: bool = false;
        for (0..self.count) |at| {
            const about = @atomicLoad(u8, &all_about[self.code_points[at]], .acquire);
            self.about[at] = about;
            unknown = unknown or about == 0;
            // Behind the last character there is whatever there is.
            const hash = self.left_hashes[at] +% self.right_hashes[at + 1];
            self.joins[at] = @truncate(pairs.get(hash));
        }
        if (!unknown) return;
        for (0..self.count) |at| {
            const char = self.charAt(at);
            self.about[at] = @bitCast(try chars.aboutOf(encoder, char.code_point, char.bytes));
        }
    }

    /// Cuts up to the last end of a pretoken, or all where none ends.
    inline fn decide(self: *const Chunk, chars: *const Characters, end_cuts: u64) Decided {
        const last = bitAt(self.count - 1);
        const inner = (last - 1) & ~end_cuts;
        const joins = bitsOf(self.joins, seams_.joined) & inner;
        const alone = bitsOf(self.joins, seams_.joined_alone);
        // Of two neighbours the left one, the right one or both in doubt.
        const doubtful = self.hasAbout(About.doubt_behind) |
            self.hasAbout(About.doubt_before) >> 1 |
            (self.hasAbout(About.doubt_last) & self.hasAbout(About.doubt_first) >> 1);
        // A chunk begins at a cut, so what is before it does not matter; what is behind may.
        const known = if (end_cuts & last != 0) joins else joins & ~(last >> 1);
        const free = (~joins & inner) | self.freeAround(chars, known & ~alone);
        const doubts = self.forbidden(chars, doubtful & inner);
        const below_end = if (end_cuts == 0) inner else lowTo(@intCast(63 - @clz(end_cuts)));
        return .{
            .cuts = ((free & ~doubts) | end_cuts) & below_end,
            .doubts = doubts,
            .many = self.hasAbout(.{ .count = 2 }),
        };
    }

    /// Those of the pairs in `joins` that no token holds together with the characters around them.
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

    /// Those of the seams in `doubts` where tokens with parts of characters do not allow a cut.
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

    /// Fetches what the units that begin at `several` are looked up in.
    inline fn prepareUnits(
        self: *Chunk,
        vocabulary: *const Vocabulary,
        cache: *const Cache,
        chars: *const Characters,
        seams: Decided,
        several: u64,
    ) void {
        var rest = several;
        while (rest != 0) : (rest &= rest - 1) {
            const unit: Unit = .of(self, seams, @ctz(rest));
            if (unit.isDirect()) {
                for (unit.first..unit.end - 1) |at| {
                    const left = chars.ids[self.code_points[at]][0];
                    const right = chars.ids[self.code_points[at + 1]][0];
                    vocabulary.pairs.prepareFind(left, right);
                }
                continue;
            }
            const key = unit.keyIn(cache);
            const line = cache.lineOf(key);
            @prefetch(line, .{});
            self.keys[unit.first] = key;
            self.lines[unit.first] = line;
        }
    }

    inline fn hasAbout(self: *const Chunk, mask: About) u64 {
        return bitsOf(self.about, @bitCast(mask));
    }

    /// A bit for each byte that has one of those in `mask`.
    inline fn bitsOf(bytes: [chunk_len]u8, mask: u8) u64 {
        const masks: Bytes = @splat(mask);
        return @bitCast(@as(Bytes, bytes) & masks != @as(Bytes, @splat(0)));
    }

    inline fn splat(number: u32) Four {
        return @splat(number);
    }
};

/// Several characters that are merged together.
const Unit = struct {
    chunk: *const Chunk,
    /// Of its inner seams.
    doubts: u64,
    /// Of its characters, those that have several ids.
    many: u64,
    first: usize,
    end: usize,

    /// Longer ones are looked up first, and those that begin as more parts than they may have
    /// characters.
    const direct_max = 3;
    /// So many are not too many to be merged at once, even as bytes.
    const merge_max = merge_short.len_max / 3;
    /// Longer ones are not worth remembering.
    const remembered_max = 32;

    /// The unit that begins at a character and ends at the next cut.
    inline fn of(chunk: *const Chunk, seams: Decided, first: usize) Unit {
        const behind = ~@as(u64, 0) << @intCast(first);
        const end: u6 = @intCast(@ctz(seams.cuts & behind));
        const inside = behind & lowTo(end);
        return .{
            .chunk = chunk,
            .doubts = seams.doubts & inside,
            .many = seams.many & inside,
            .first = first,
            .end = @as(usize, end) + 1,
        };
    }

    /// Whether merging takes no longer than looking for it.
    inline fn isDirect(self: Unit) bool {
        return self.end - self.first <= direct_max and self.doubts | self.many == 0;
    }

    inline fn encode(
        self: Unit,
        encoder: *ids.Encoder,
        cache: *Cache,
        chars: *const Characters,
        out: anytype,
    ) ids.Error!usize {
        var counted: [merge_short.len_max + 4]u32 = undefined;
        const room = if (@TypeOf(out) == void) @as([*]u32, &counted) else out;
        if (self.isDirect()) return self.mergeDirect(encoder, chars, room);
        const line, const key = .{ self.chunk.lines[self.first], self.chunk.keys[self.first] };
        if (line.front.idsOf(key) orelse line.back.idsOf(key)) |value| {
            @branchHint(.likely);
            room[0..4].* = value.words;
            return value.count;
        }
        return self.find(encoder, cache, chars, out);
    }

    fn bytes(self: Unit) []const u8 {
        return self.chunk.text[self.chunk.start(self.first)..self.chunk.start(self.end)];
    }

    /// Whether the key holds all of it although it has too many bytes for that: characters of the
    /// same 256.
    inline fn isPacked(self: Unit) bool {
        const len = self.end - self.first;
        const high: caches.Key = self.chunk.high[self.first..][0..16].*;
        const same: u16 = @bitCast(high == @as(caches.Key, @splat(high[0])));
        return len > caches.key_len_max / 3 and len <= caches.packed_max and @ctz(~same) >= len;
    }

    inline fn keyIn(self: Unit, cache: *const Cache) caches.Key {
        if (self.isPacked()) {
            const low = self.chunk.low[self.first..][0..16];
            return cache.keyOfPacked(self.chunk.high[self.first], low.*, self.end - self.first);
        }
        return units.keyOf(cache, self.bytes());
    }

    noinline fn find(
        self: Unit,
        encoder: *ids.Encoder,
        cache: *Cache,
        chars: *const Characters,
        out: anytype,
    ) ids.Error!usize {
        const key = self.chunk.keys[self.first];
        const text = if (self.isPacked()) "" else self.bytes();
        if (cache.find(key, text, out)) |count| return count;
        if (self.end - self.first > merge_max) {
            const found = try encoder.mergedIds(self.bytes());
            if (self.end - self.first <= remembered_max) cache.insert(key, text, found);
            return units.put(found, out);
        }
        var counted: [merge_short.len_max + 4]u32 = undefined;
        const room = if (@TypeOf(out) == void) @as([*]u32, &counted) else out;
        const count = try self.merge(encoder, chars, room);
        cache.insert(key, text, room[0..count]);
        return count;
    }

    /// Two or three characters that have an id each.
    inline fn mergeDirect(
        self: Unit,
        encoder: *ids.Encoder,
        chars: *const Characters,
        out: [*]u32,
    ) usize {
        const vocabulary = &encoder.tokenizer.vocabulary;
        const code_points = self.chunk.code_points[self.first..][0..3].*;
        const left, const right = .{ chars.ids[code_points[0]][0], chars.ids[code_points[1]][0] };
        if (self.end - self.first == 2) return mergeTwo(vocabulary, .{ left, right }, out);
        return mergeThree(vocabulary, .{ left, right, chars.ids[code_points[2]][0] }, out);
    }

    /// Merges what the characters are to begin with.
    fn merge(
        self: Unit,
        encoder: *ids.Encoder,
        chars: *const Characters,
        out: [*]u32,
    ) ids.Error!usize {
        const vocabulary = &encoder.tokenizer.vocabulary;
        var parts: [merge_short.len_max + 4]u32 = undefined;
        var count: usize = 0;
        var has_bytes = false;
        for (self.first..self.end) |at| {
            // The seams before and behind it.
            const around = bitAt(at) | bitAt(at) >> 1;
            if (self.doubts & around == 0) {
                parts[count..][0..4].* = chars.ids[self.chunk.code_points[at]];
                count += self.chunk.idCount(at);
                continue;
            }
            has_bytes = true;
            for (self.chunk.charAt(at).bytes) |byte| {
                parts[count] = vocabulary.byte_ids[byte];
                count += 1;
            }
        }
        const merged = merge_short.mergeFrom(vocabulary, parts[0..count], out);
        if (has_bytes) try encoder.refuseStandIns(out[0..merged]);
        return merged;
    }
};

inline fn mergeTwo(vocabulary: *const Vocabulary, parts: [2]u32, out: [*]u32) usize {
    const id = vocabulary.pairs.find(parts[0], parts[1]);
    const is_one = id != merge_short.none;
    out[0..2].* = .{ if (is_one) id else parts[0], parts[1] };
    return if (is_one) 1 else 2;
}

/// The lower merge comes first, the left one on a tie.
inline fn mergeThree(vocabulary: *const Vocabulary, parts: [3]u32, out: [*]u32) usize {
    const left = vocabulary.pairs.find(parts[0], parts[1]);
    const right = vocabulary.pairs.find(parts[1], parts[2]);
    if (left == merge_short.none and right == merge_short.none) {
        out[0..3].* = parts;
        return 3;
    }
    if (left <= right) return mergeTwo(vocabulary, .{ left, parts[2] }, out);
    return mergeTwo(vocabulary, .{ parts[0], right }, out);
}

inline fn bitAt(index: usize) u64 {
    return @as(u64, 1) << @intCast(index);
}

/// The bits up to this one.
inline fn lowTo(index: u6) u64 {
    return @as(u64, std.math.maxInt(u64)) >> @intCast(63 - index);
}
