//! Prefixes of characters → the tokens of their bytes.
//!
//! If merging starts with characters, it first builds each multi-byte character from its bytes
//! (vocabulary/ordered.zig). A character that is not a token may leave a prefix of another
//! character's bytes as a symbol. Such a prefix is replaced by its bytes' tokens before ids are
//! cached or counted, so no caller sees it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Returns the number of ids after the replacement.
pub fn lenOf(vocabulary: *const Vocabulary, ids: []const u32) usize {
    var len = ids.len;
    if (vocabulary.prefixes_end == 0) return len;
    for (ids) |id| {
        if (vocabulary.isPrefix(id)) len += vocabulary.tokenBytes(id).len - 1;
    }
    return len;
}

/// Replaces prefixes among the first `count` ids of `out`, in place, and returns the new number of
/// ids. `out` must have capacity for one id per byte.
pub fn inPlace(vocabulary: *const Vocabulary, out: [*]u32, count: usize) usize {
    const len = lenOf(vocabulary, out[0..count]);
    var write = len;
    var read = count;
    // From last to first, so ids are read before they are overwritten.
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

/// The same for the ids of a list from `start`.
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
