//! A pretoken in a large script → ids, fragment by fragment.
//!
//! The pretoken is split at every safe split point (vocabulary/seams.zig). Most fragments are then
//! a single character, whose ids are in a table indexed by code point. Others are looked up like
//! words.

const std = @import("std");
const ids = @import("../ids.zig");
const caches = @import("cache.zig");
const triples = @import("triples.zig");
const unreached = @import("../vocabulary/unreached.zig");
const Cache = caches.Cache;
const Characters = @import("characters.zig").Characters;

/// Longer fragments are not cached.
const unit_len_max = 64;

/// Writes the ids of `piece`, a pretoken or a slice of one, to `out`, or only counts them. `out`
/// needs space for one id per byte and four more, and 16 bytes after the piece must be readable.
pub fn encode(
    encoder: *ids.Encoder,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    is_whole: bool,
    out: anytype,
) ids.Error!usize {
    if (triples.fits(&encoder.tokenizer.vocabulary)) {
        const end: u32 = @intCast(piece.len);
        const text = piece.ptr;
        const done = try triples.encode(encoder, cache, chars, text, 0, &.{end}, is_whole, out);
        if (done.pretokens == 1) return done.written;
    }
    return encodeAny(encoder, cache, chars, piece, is_whole, out);
}

/// Length of the slices of a long pretoken, and distance searched for a split point at their end.
const slice_len = 1 << 15;
const seam_reach = 256;

/// Encodes a long pretoken slice by slice, between safe split points, and returns the number of
/// bytes encoded. The last bytes remain, as do stretches without split points. `sink` is a `List`
/// or a `Count`.
pub fn encodeLong(
    encoder: *ids.Encoder,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    sink: anytype,
) ids.Error!usize {
    var start: usize = 0;
    while (piece.len - start > 2 * seam_reach) {
        // Leaves readable text after the slice.
        const wanted = @min(start + slice_len, piece.len - seam_reach / 2);
        var end = wanted;
        while (!try encoder.isFreeSeam(piece, end)) : (end -= 1) {
            if (end <= start + 1 or wanted - end >= seam_reach) return start;
        }
        const slice = piece[start..end];
        try encoder.pollAfter(slice.len);
        if (@TypeOf(sink) == *ids.List) {
            try sink.ids.ensureUnusedCapacity(sink.gpa, slice.len + ids.List.room_extra);
            const out = sink.ids.items.ptr + sink.ids.items.len;
            sink.ids.items.len += try encode(encoder, cache, chars, slice, false, out);
        } else sink.count += try encode(encoder, cache, chars, slice, false, {});
        start = end;
    }
    return start;
}

/// `encode` for arbitrary characters.
fn encodeAny(
    encoder: *ids.Encoder,
    cache: *Cache,
    chars: *const Characters,
    piece: []const u8,
    is_whole: bool,
    out: anytype,
) ids.Error!usize {
    const writes = @TypeOf(out) != void;
    var written: usize = 0;
    var unit_start: usize = 0;
    var left = try chars.charAt(encoder, piece);
    var end = left.bytes.len;
    while (end < piece.len) {
        const right = try chars.charAt(encoder, piece[end..]);
        if (chars.seams.joins(left.code_point, right.code_point) == 0 and
            chars.mayCut(left, right))
        {
            const unit = piece[unit_start..end];
            if (unit.len == left.bytes.len) {
                // Only characters with an entry can be split off.
                if (writes) out[written..][0..4].* = chars.ids[left.code_point];
                written += left.about.count;
            } else {
                const rest = if (writes) out + written else {};
                written += try encodeUnit(encoder, cache, unit, false, rest);
            }
            unit_start = end;
        }
        left = right;
        end += right.bytes.len;
    }
    const unit = piece[unit_start..];
    const rest = if (writes) out + written else {};
    const is_all = is_whole and unit_start == 0;
    return written + try encodeUnit(encoder, cache, unit, is_all, rest);
}

/// Writes ids, or only counts them.
pub inline fn put(found: []const u32, out: anytype) usize {
    if (@TypeOf(out) != void) for (found, out[0..found.len]) |id, *place| {
        place.* = id;
    };
    return found.len;
}

/// Writes the ids of a fragment, or only counts them.
fn encodeUnit(
    encoder: *ids.Encoder,
    cache: *Cache,
    unit: []const u8,
    is_whole: bool,
    out: anytype,
) ids.Error!usize {
    // A whole pretoken may be an unmergeable token.
    if (is_whole) return put(try encoder.idsOf(unit), out);
    // Whole pretokens use the same cache entries, and keys are padded with 0xFF.
    const vocabulary = &encoder.tokenizer.vocabulary;
    if (!unreached.tells(vocabulary) or unreached.find(vocabulary, unit) != null or
        unit.len > unit_len_max or std.mem.indexOfScalar(u8, unit, 0xFF) != null)
        return put(try encoder.mergedIds(unit), out);
    const key = keyOf(cache, unit);
    if (cache.find(key, unit, out)) |count| return count;
    const found = try encoder.mergedIds(unit);
    cache.insert(key, unit, found);
    return put(found, out);
}

pub inline fn keyOf(cache: *const Cache, unit: []const u8) caches.Key {
    if (unit.len > caches.key_len_max) return cache.keyOfLong(unit);
    return cache.keyOf(unit.ptr, unit.len);
}
