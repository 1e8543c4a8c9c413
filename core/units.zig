//! A pretoken in a large script → ids, fragment by fragment.
//!
//! The pretoken is split at every safe split point (units/seams.zig). Most fragments are then
//! a single character, whose ids are in a table indexed by code point. Others are looked up like
//! words.

const std = @import("std");
const merge = @import("merge.zig");
const Error = merge.Error;
const Merger = merge.Merger;
const caches = @import("cache.zig");
const triples = @import("units/triples.zig");
const unreached = @import("vocabulary/unreached.zig");
const Cache = caches.Cache;
const Goal = caches.Goal;
const Characters = @import("units/characters.zig").Characters;

/// Longer fragments are not cached.
const unit_len_max = 64;

/// Writes the ids of `piece`, a pretoken or a slice of one, to `out`, and returns their number. For
/// `.number` the contents of `out` are undefined. `out` needs space for one id per byte and four
/// more, and 16 bytes after the piece must be readable.
pub fn encode(
    comptime goal: Goal,
    merger: *Merger,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    is_whole: bool,
    out: [*]u32,
) Error!usize {
    if (triples.fits(merger.vocabulary)) {
        const end: u32 = @intCast(piece.len);
        const text = piece.ptr;
        const ends: []const u32 = &.{end};
        const done =
            try triples.encode(goal, merger, cache, chars, text, 0, ends, is_whole, out);
        if (done.pretokens == 1) return done.written;
    }
    return encodeAny(goal, merger, cache, chars, piece, is_whole, out);
}

/// `encode` for arbitrary characters.
fn encodeAny(
    comptime goal: Goal,
    merger: *Merger,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    is_whole: bool,
    out: [*]u32,
) Error!usize {
    var written: usize = 0;
    var unit_start: usize = 0;
    var left = try chars.charAt(merger, piece);
    var end = left.bytes.len;
    while (end < piece.len) {
        const right = try chars.charAt(merger, piece[end..]);
        if (chars.seams.joins(left.code_point, right.code_point) == 0 and
            chars.mayCut(left, right))
        {
            const unit = piece[unit_start..end];
            const rest = if (goal == .ids) out + written else out;
            if (unit.len == left.bytes.len) {
                // Only characters with an entry can be split off.
                if (goal == .ids) rest[0..4].* = chars.ids[left.code_point];
                written += left.about.count;
            } else written += try encodeUnit(goal, merger, cache, unit, false, rest);
            unit_start = end;
        }
        left = right;
        end += right.bytes.len;
    }
    const unit = piece[unit_start..];
    const is_all = is_whole and unit_start == 0;
    const rest = if (goal == .ids) out + written else out;
    return written + try encodeUnit(goal, merger, cache, unit, is_all, rest);
}

/// Writes ids, and returns their number.
pub inline fn put(found: []const u32, out: [*]u32) usize {
    for (found, out[0..found.len]) |id, *place| place.* = id;
    return found.len;
}

/// Writes the ids of a fragment, and returns their number.
fn encodeUnit(
    comptime goal: Goal,
    merger: *Merger,
    cache: *Cache,
    unit: []const u8,
    is_whole: bool,
    out: [*]u32,
) Error!usize {
    // A whole pretoken may be an unmergeable token.
    if (is_whole) return put(try merger.idsOf(unit), out);
    // Whole pretokens use the same cache entries, and keys are padded with 0xFF.
    const vocabulary = merger.vocabulary;
    if (!unreached.tells(vocabulary) or unreached.find(vocabulary, unit) != null or
        unit.len > unit_len_max or std.mem.indexOfScalar(u8, unit, 0xFF) != null)
        return put(try merger.mergedIds(unit), out);
    const key = keyOf(cache, unit);
    if (cache.find(goal, key, unit, out)) |count| return count;
    const found = try merger.mergedIds(unit);
    cache.insert(key, unit, found);
    return put(found, out);
}

pub inline fn keyOf(cache: *const Cache, unit: []const u8) caches.Key {
    if (unit.len > caches.key_len_max) return cache.keyOfLong(unit);
    return cache.keyOf(unit.ptr, unit.len);
}
