//! Pretokens of three-byte characters → ids, fragment by fragment.
//!
//! Chinese, Japanese or Thai text, including punctuation, consists mostly of such characters, so
//! many pretokens are processed together. A chunk has up to 64 characters. All its safe split
//! points are computed before the first fragment is encoded, and without branches, since they are
//! hard to predict. Pretokens end at split points too. The next chunk begins at the last split
//! point.
//!
//! A fragment of several characters is merged from the characters' ids, not from their bytes. If no
//! token can cover part of a character and text outside it, the character is complete before any
//! other merge involves it. If every merge ranks after those of its symbols (`PairTable.rising`),
//! it can therefore be built first. Other characters start as bytes.
//!
//! An unmergeable token matches only a whole pretoken, and no split point is inside such a
//! pretoken. It is thus one fragment, and only fragments that are whole pretokens are checked for
//! such tokens.

const std = @import("std");
const merge = @import("../merge.zig");
const Error = merge.Error;
const Merger = merge.Merger;
const expand = @import("../merge/byte_fallback.zig");
const units = @import("../units.zig");
const chunks = @import("chunk.zig");
const merge_short = @import("../merge/short.zig");
const caches = @import("../cache.zig");
const unreached = @import("../vocabulary/unreached.zig");
const Cache = caches.Cache;
const Characters = @import("characters.zig").Characters;
const Chunk = chunks.Chunk;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

pub const Done = struct { pretokens: usize = 0, written: usize = 0 };

/// Encodes the pretokens from `start` that end at `ends`, as long as they contain only three-byte
/// characters; the very first character may be a single byte. No end may be inside a character.
/// Returns the numbers of pretokens and ids. The ids are written to `out`, which needs space for
/// one id per byte and four more; for `.number` its contents are undefined. 16 bytes after the last
/// end must be readable.
/// If `are_whole` is false, the input consists of slices of pretokens.
pub fn encode(
    comptime goal: caches.Goal,
    merger: *Merger,
    cache: *Cache,
    chars: *const Characters,
    text: [*]const u8,
    start: usize,
    ends: []const u32,
    are_whole: bool,
    out: [*]u32,
) Error!Done {
    const vocabulary = merger.vocabulary;
    const has_wholes = are_whole and vocabulary.unreached != null;
    var done: Done = .{};
    var written: usize = 0;
    var base = start;
    var chunk: Chunk = undefined;
    while (done.pretokens < ends.len and (text[base] >= 0xE0 or base == start)) {
        const pretoken_ends = ends[done.pretokens..];
        chunk.read(text[base..ends[ends.len - 1]], base == start);
        const end_cuts = chunk.endCuts(pretoken_ends, base);
        // Other characters, or a fragment that is too long.
        if (end_cuts == 0 and chunk.count < chunks.len_max) break;
        const flags = try chunk.lookUp(merger, chars);
        const seams = chunk.decide(chars, flags, end_cuts);
        if (seams.cuts == 0) break;
        const last_cut: u6 = @intCast(63 - @clz(seams.cuts));
        var several = (seams.cuts << 1 | 1) & ~seams.cuts & chunks.lowTo(last_cut);
        var starts: u64 = 0;
        if (has_wholes) {
            const before = if (done.pretokens == 0) start else ends[done.pretokens - 1];
            starts = end_cuts << 1 | @intFromBool(base == before);
            several |= unmergedSingles(&chunk, vocabulary, starts & end_cuts);
        }
        prepareUnits(&chunk, vocabulary, cache, seams, several);
        var first: usize = 0;
        var rest = several;
        while (true) {
            const single_end: usize = if (rest == 0) @as(usize, last_cut) + 1 else @ctz(rest);
            const room = if (goal == .ids) out + written else out;
            const singles = chunk.putSingles(goal, chars, seams, first, single_end, room);
            written += singles;
            first = single_end;
            if (rest == 0) break;
            const unit: Unit = .of(&chunk, seams, first);
            const place = if (goal == .ids) room + singles else out;
            written += if (unit.findWhole(vocabulary, starts, end_cuts)) |id|
                units.put(&.{id}, place)
            else
                try unit.encode(goal, merger, cache, chars, place);
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
    const is_ranked = if (vocabulary.ties) |ties| ties.is_ascii else true;
    return unreached.tells(vocabulary) and vocabulary.pairs.rising and is_ranked;
}

/// Returns those characters in `alone`, each a pretoken, that are unmergeable tokens.
noinline fn unmergedSingles(chunk: *const Chunk, vocabulary: *const Vocabulary, alone: u64) u64 {
    var found: u64 = 0;
    var rest = alone;
    while (rest != 0) : (rest &= rest - 1) {
        const char = chunk.charAt(@ctz(rest));
        if (unreached.find(vocabulary, char.bytes) != null) found |= rest & -%rest;
    }
    return found;
}

/// Prefetches the lookups of the fragments that begin at `several`.
inline fn prepareUnits(
    chunk: *Chunk,
    vocabulary: *const Vocabulary,
    cache: *const Cache,
    seams: chunks.Decided,
    several: u64,
) void {
    var rest = several;
    while (rest != 0) : (rest &= rest - 1) {
        const unit: Unit = .of(chunk, seams, @ctz(rest));
        if (unit.isDirect()) {
            for (unit.first..unit.end - 1) |at| {
                vocabulary.pairs.prepareFind(chunk.first_ids[at], chunk.first_ids[at + 1]);
            }
            continue;
        }
        const key = units.keyOf(cache, unit.bytes());
        const line = cache.lineOf(key);
        @prefetch(line, .{});
        chunk.keys[unit.first] = key;
        chunk.lines[unit.first] = line;
    }
}

/// A fragment: several characters that are merged together.
const Unit = struct {
    chunk: *const Chunk,
    /// Its inner boundaries that are in doubt.
    doubts: u64,
    /// Its characters with several ids.
    many: u64,
    first: usize,
    end: usize,

    /// Longer fragments are looked up in the cache first, as are those that start with more symbols
    /// than this.
    const direct_max = 3;
    /// Maximum number of characters that can be merged at once, even from bytes.
    const merge_max = merge_short.len_max / 3;
    /// Longer fragments are not cached.
    const remembered_max = 32;

    /// Returns the fragment from a character to the next split point.
    inline fn of(chunk: *const Chunk, seams: chunks.Decided, first: usize) Unit {
        const behind = ~@as(u64, 0) << @intCast(first);
        const end: u6 = @intCast(@ctz(seams.cuts & behind));
        const inside = behind & chunks.lowTo(end);
        return .{
            .chunk = chunk,
            .doubts = seams.doubts & inside,
            .many = seams.many & inside,
            .first = first,
            .end = @as(usize, end) + 1,
        };
    }

    /// Returns the unmergeable token that the fragment is, if it is a whole pretoken. `starts` and
    /// `ends` mark the first and the last character of each pretoken.
    inline fn findWhole(
        self: Unit,
        vocabulary: *const Vocabulary,
        starts: u64,
        ends: u64,
    ) ?u32 {
        if (starts & chunks.bitAt(self.first) == 0) return null;
        if (ends & chunks.bitAt(self.end - 1) == 0) return null;
        return unreached.find(vocabulary, self.bytes());
    }

    /// Whether merging is as fast as a lookup.
    inline fn isDirect(self: Unit) bool {
        return self.end - self.first <= direct_max and self.doubts | self.many == 0;
    }

    inline fn encode(
        self: Unit,
        comptime goal: caches.Goal,
        merger: *Merger,
        cache: *Cache,
        chars: *const Characters,
        out: [*]u32,
    ) Error!usize {
        if (self.isDirect()) return self.mergeDirect(merger, out);
        const line, const key = .{ self.chunk.lines[self.first], self.chunk.keys[self.first] };
        if (line.front.idsOf(key) orelse line.back.idsOf(key)) |value| {
            @branchHint(.likely);
            if (unreached.areMerged(merger.vocabulary, value.words[0], value.count)) {
                @branchHint(.likely);
                out[0..4].* = value.words;
                return value.count;
            }
        }
        return self.find(goal, merger, cache, chars, out);
    }

    fn bytes(self: Unit) []const u8 {
        return self.chunk.text[self.chunk.start(self.first)..self.chunk.start(self.end)];
    }

    noinline fn find(
        self: Unit,
        comptime goal: caches.Goal,
        merger: *Merger,
        cache: *Cache,
        chars: *const Characters,
        out: [*]u32,
    ) Error!usize {
        const key = self.chunk.keys[self.first];
        const text = self.bytes();
        // For an unmergeable token, the cache has the ids of the whole pretoken.
        const is_shared = unreached.find(merger.vocabulary, text) == null;
        if (is_shared) if (cache.find(goal, key, text, out)) |count| return count;
        if (self.end - self.first > merge_max) {
            const found = try merger.mergedIds(text);
            const is_short = self.end - self.first <= remembered_max;
            if (is_shared and is_short) cache.insert(key, text, found);
            return units.put(found, out);
        }
        const count = try self.merge(merger, chars, out);
        if (is_shared) cache.insert(key, text, out[0..count]);
        return count;
    }

    /// Merges two or three characters with one id each.
    inline fn mergeDirect(self: Unit, merger: *Merger, out: [*]u32) usize {
        const vocabulary = merger.vocabulary;
        const parts = self.chunk.first_ids[self.first..][0..3].*;
        if (self.end - self.first == 2) return mergeTwo(vocabulary, parts[0..2].*, out);
        return mergeThree(vocabulary, parts, out);
    }

    /// Merges the initial symbols of the characters.
    fn merge(
        self: Unit,
        merger: *Merger,
        chars: *const Characters,
        out: [*]u32,
    ) Error!usize {
        const vocabulary = merger.vocabulary;
        var parts: [merge_short.len_max + 4]u32 = undefined;
        var count: usize = 0;
        var has_bytes = false;
        for (self.first..self.end) |at| {
            // The boundaries before and after it.
            const around = chunks.bitAt(at) | chunks.bitAt(at) >> 1;
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
        if (has_bytes) try merger.refuseStandIns(out[0..merged]);
        return expand.inPlace(vocabulary, out, merged);
    }
};

inline fn mergeTwo(vocabulary: *const Vocabulary, parts: [2]u32, out: [*]u32) usize {
    const id = vocabulary.pairs.find(parts[0], parts[1]);
    const is_one = id != merge_short.none;
    out[0..2].* = .{ if (is_one) id else parts[0], parts[1] };
    return if (is_one) 1 else 2;
}

/// The lower-ranked merge comes first, the left one on a tie.
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
