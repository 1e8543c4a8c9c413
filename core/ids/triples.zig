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
const Entry = characters.Entry;
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
    while (done.pretokens < ends.len and (text[base] >= 0xE0 or base == start)) {
        const pretoken_ends = ends[done.pretokens..];
        chunk.read(text[base..ends[ends.len - 1]], base == start);
        const end_cuts = chunk.endCuts(pretoken_ends, base);
        // Characters of others, or a unit that is too long.
        if (end_cuts == 0 and chunk.count < chunk_len) break;
        try chunk.lookUp(encoder, chars);
        const seams = chunk.decide(chars, end_cuts);
        if (seams.cuts == 0) break;
        const last_cut: u6 = @intCast(63 - @clz(seams.cuts));
        const several = (seams.cuts << 1 | 1) & ~seams.cuts & lowTo(last_cut);
        chunk.prepareUnits(&encoder.tokenizer.vocabulary, cache, seams, several);
        var first: usize = 0;
        var rest = several;
        while (true) {
            const single_end: usize = if (rest == 0) @as(usize, last_cut) + 1 else @ctz(rest);
            const room = if (writes) out + written else {};
            const singles = chunk.putSingles(chars, seams, first, single_end, room);
            written += singles;
            first = single_end;
            if (rest == 0) break;
            const unit: Unit = .of(&chunk, seams, first);
            written += try unit.encode(encoder, cache, chars, if (writes) room + singles else {});
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
    code_points: [chunk_len + 16]u32,
    /// Of what is known about the characters, and of each of them with the next.
    entries: [chunk_len]u32,
    places: [chunk_len]u32,
    /// The first id of each, for most of them the only one.
    first_ids: [chunk_len + 4]u32,
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
    inline fn read(self: *Chunk, text: []const u8, is_first: bool) void {
        const spread = [16]i32{ 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1 };
        const zero: @Vector(1, u8) = @splat(0);
        // One of a single byte is put before the others.
        const before: usize = @intFromBool(is_first and text[0] < 0x80);
        self.text = text;
        self.first_len = 3 - 2 * before;
        self.code_points[0] = text[0];
        const wide_max = @min((text.len - before) / 3, chunk_len - before);
        var wrong: u64 = 0;
        var at: usize = 0;
        while (at < wide_max and wrong == 0) : (at += 4) {
            const bytes: @Vector(16, u8) = text[before + 3 * at ..].ptr[0..16].*;
            const words: Four = @bitCast(@shuffle(u8, bytes, zero, spread));
            const code_points = ((words & splat(0xF)) << splat(12)) |
                (words >> splat(2) & splat(0xFC0)) | (words >> splat(16) & splat(0x3F));
            self.code_points[before + at ..][0..4].* = code_points;
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
        const entries = chars.entries;
        const pairs = chars.seams.pairs;
        const factors = chars.seams.factors;
        var at: usize = 0;
        while (at < self.count) : (at += 4) {
            const left: Four = self.code_points[at..][0..4].*;
            // Behind the last character there is whatever there is.
            const right: Four = self.code_points[at + 1 ..][0..4].*;
            const hashes = left *% splat(factors[0]) +% right *% splat(factors[1]);
            self.places[at..][0..4].* = hashes >> @splat(pairs.shift);
        }
        for (0..self.count) |index| {
            const entry = @atomicLoad(Entry, &entries[self.code_points[index]], .acquire);
            self.entries[index] = @bitCast(entry);
            self.joins[index] = @truncate(pairs.from(self.places[index]));
        }
        self.split();
        const known = self.hasAbout(.{ .count = 3 });
        if (~known & lowTo(@intCast(self.count - 1)) == 0) return;
        for (0..self.count) |index| {
            const char = self.charAt(index);
            _ = try chars.aboutOf(encoder, char.code_point, char.bytes);
            self.entries[index] = @bitCast(entries[char.code_point]);
        }
        self.split();
    }

    inline fn split(self: *Chunk) void {
        const Words = @Vector(chunk_len, u32);
        const all: Words = self.entries;
        self.first_ids[0..chunk_len].* = all >> @splat(8);
        self.about = @as(Bytes, @truncate(all));
    }

    /// Writes the ids of characters that are units alone, and returns their number.
    inline fn putSingles(
        self: *const Chunk,
        chars: *const Characters,
        seams: Decided,
        first: usize,
        end: usize,
        out: anytype,
    ) usize {
        if (first == end) return 0;
        const writes = @TypeOf(out) != void;
        if (seams.many >> @intCast(first) << @intCast(64 - (end - first)) == 0) {
            var at = first;
            if (writes) while (at < end) : (at += 4) {
                out[at - first ..][0..4].* = self.first_ids[at..][0..4].*;
            };
            return end - first;
        }
        const values = chars.ids;
        var written: usize = 0;
        for (first..end) |at| {
            if (writes) out[written..][0..4].* = values[self.code_points[at]];
            written += self.idCount(at);
        }
        return written;
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
        seams: Decided,
        several: u64,
    ) void {
        var rest = several;
        while (rest != 0) : (rest &= rest - 1) {
            const unit: Unit = .of(self, seams, @ctz(rest));
            if (unit.isDirect()) {
                for (unit.first..unit.end - 1) |at| {
                    vocabulary.pairs.prepareFind(self.first_ids[at], self.first_ids[at + 1]);
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
        if (self.isDirect()) return self.mergeDirect(encoder, room);
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
        if (len <= caches.key_len_max / 3 or len > caches.packed_max) return false;
        const high: caches.Key = @truncate(self.codePoints() >> @splat(8));
        const same: u16 = @bitCast(high == @as(caches.Key, @splat(high[0])));
        return @ctz(~same) >= len;
    }

    inline fn codePoints(self: Unit) @Vector(16, u32) {
        return self.chunk.code_points[self.first..][0..16].*;
    }

    inline fn keyIn(self: Unit, cache: *const Cache) caches.Key {
        if (!self.isPacked()) return units.keyOf(cache, self.bytes());
        const all = self.codePoints();
        const low: caches.Key = @truncate(all);
        return cache.keyOfPacked(@truncate(all[0] >> 8), low, self.end - self.first);
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
    inline fn mergeDirect(self: Unit, encoder: *ids.Encoder, out: [*]u32) usize {
        const vocabulary = &encoder.tokenizer.vocabulary;
        const parts = self.chunk.first_ids[self.first..][0..3].*;
        if (self.end - self.first == 2) return mergeTwo(vocabulary, parts[0..2].*, out);
        return mergeThree(vocabulary, parts, out);
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
