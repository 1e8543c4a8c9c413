//! The symbols that merging leaves of a pretoken → its ids, if some characters are not tokens.
//!
//! Such a character becomes the unknown token, one per character or one per run. Or it is dropped,
//! which makes its neighbours adjacent, so the pretoken is merged again without it. No pair
//! contains such a character, so merging never crosses one.

const std = @import("std");
const merge = @import("../merge.zig");
const Error = merge.Error;
const Merger = merge.Merger;
const expand = @import("byte_fallback.zig");
const unicode = @import("../unicode.zig");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Returns the ids of `piece`, given the merged symbols `found`, which are in the merger's memory.
/// Valid until the next call.
pub fn settle(merger: *Merger, piece: []const u8, found: []u32) Error![]const u32 {
    const vocabulary = merger.vocabulary;
    if (vocabulary.leftover == .expand) {
        if (found.ptr == &merger.short_ids) {
            return found.ptr[0..expand.inPlace(vocabulary, found.ptr, found.len)];
        }
        try expand.inList(merger.gpa, vocabulary, &merger.long_ids, 0);
        return merger.long_ids.items;
    }
    var start: usize = 0;
    for (found) |id| {
        if (isMissing(vocabulary, id)) break;
        start += vocabulary.partLen(id);
    } else return found;
    switch (vocabulary.missing) {
        .unk => return putUnk(merger, piece, found),
        .drop => {
            const kept = try merger.gpa.alloc(u8, piece.len);
            defer merger.gpa.free(kept);
            const len = keep(vocabulary, piece, found, kept);
            if (len == 0) return found[0..0];
            const merged = try merger.mergedParts(kept[0..len]);
            return merged[0..forget(vocabulary, merged)];
        },
        .fail, .bytes => {
            merger.missing_byte = piece[start];
            return error.MissingByte;
        },
    }
}

/// Whether a merged symbol is no token of the file.
pub fn isMissing(vocabulary: *const Vocabulary, id: u32) bool {
    return id >= vocabulary.ids_end or vocabulary.isPrefix(id);
}

fn putUnk(merger: *Merger, piece: []const u8, found: []const u32) Error![]const u32 {
    const vocabulary = merger.vocabulary;
    const out = try merger.roomFor(piece.len);
    var count: usize = 0;
    var start: usize = 0;
    var index: usize = 0;
    while (index < found.len) {
        if (!isMissing(vocabulary, found[index])) {
            out[count] = found[index];
            count += 1;
            start += vocabulary.partLen(found[index]);
            index += 1;
            continue;
        }
        var end = start;
        while (index < found.len and isMissing(vocabulary, found[index])) : (index += 1) {
            end += vocabulary.partLen(found[index]);
        }
        while (start < end) {
            out[count] = vocabulary.unk;
            count += 1;
            const is_char = vocabulary.characters and !vocabulary.fuse_unk;
            const len = if (is_char) unicode.decode(piece[0..end], start).len else 1;
            start = if (vocabulary.fuse_unk) end else start + len;
        }
    }
    return out[0..count];
}

/// Removes missing symbols and returns the number of remaining ids. Only a vocabulary that does not
/// build characters before other merges can have such symbols here, and they must not be returned.
fn forget(vocabulary: *const Vocabulary, merged: []u32) usize {
    var count: usize = 0;
    for (merged) |id| {
        merged[count] = id;
        count += @intFromBool(!isMissing(vocabulary, id));
    }
    return count;
}

/// Copies the bytes of all symbols that are not missing to `out`, and returns their number.
fn keep(vocabulary: *const Vocabulary, piece: []const u8, found: []const u32, out: []u8) usize {
    var count: usize = 0;
    var start: usize = 0;
    for (found) |id| {
        const part = piece[start..][0..vocabulary.partLen(id)];
        start += part.len;
        if (isMissing(vocabulary, id)) continue;
        @memcpy(out[count..][0..part.len], part);
        count += part.len;
    }
    return count;
}
