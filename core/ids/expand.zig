//! Parts of characters → the tokens of their bytes.
//!
//! Where merging starts with characters, those of several bytes are merged from their bytes before
//! all else (vocabulary/ordered.zig). What is left of one that is no token, but begins as one, is
//! taken apart again: before anything is remembered or counted, so nobody else sees it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// How many ids these are when they are taken apart.
pub fn lenOf(vocabulary: *const Vocabulary, ids: []const u32) usize {
    var len = ids.len;
    if (vocabulary.prefixes_end == 0) return len;
    for (ids) |id| {
        if (vocabulary.isPrefix(id)) len += vocabulary.tokenBytes(id).len - 1;
    }
    return len;
}

/// Takes the first `count` ids of `out` apart, in place, and returns how many they are then: there
/// is room for so many, one for each byte.
pub fn inPlace(vocabulary: *const Vocabulary, out: [*]u32, count: usize) usize {
    const len = lenOf(vocabulary, out[0..count]);
    var write = len;
    var read = count;
    // From the last to the first: what is written was read before.
    while (read < write) {
        read -= 1;
        const id = out[read];
        if (!vocabulary.isPrefix(id)) {
            write -= 1;
            out[write] = id;
            continue;
        }
        const bytes = vocabulary.tokenBytes(id);
        write -= bytes.len;
        for (out[write..][0..bytes.len], bytes) |*place, byte| {
            place.* = vocabulary.byte_ids[byte];
        }
    }
    return len;
}

/// The same for the ids of a list from `start` on.
pub fn inList(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    list: *std.ArrayList(u32),
    start: usize,
) Allocator.Error!void {
    const ids = list.items[start..];
    const len = lenOf(vocabulary, ids);
    if (len == ids.len) return;
    try list.ensureTotalCapacity(gpa, start + len);
    list.items.len = start + len;
    _ = inPlace(vocabulary, list.items.ptr + start, ids.len);
}
