//! Pretoken of any length → ids: window by window.
//!
//! A window is merged on its own, most of its tokens are kept, and the next window starts behind
//! them. That is exact because of a fact about BPE: *a sequence of tokens is the encoding of its
//! bytes if and only if each two neighbours are the encoding of theirs* (the first merge across a
//! boundary needs only the tokens on its two sides; github/rust-gems, crate bpe). So one check of
//! the two tokens at the seam proves the whole. Windows are small, where merging is fastest, and
//! grow where tokens are long or a seam does not hold; memory is that of one window.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const Window = @import("window.zig").Window;
const merge_short = @import("merge_short.zig");

/// Appends the ids of `piece` to `out`. Bytes without a token come out as their stand-ins.
/// Stops early once `ids_max` of them are there: those are the encoding of the bytes they cover.
pub fn merge(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    ids_max: usize,
    out: *std.ArrayList(u32),
) Allocator.Error!void {
    var window: Window = .empty;
    defer window.deinit(gpa);
    var seam: Window = .empty;
    defer seam.deinit(gpa);
    const first = out.items.len;
    var start: usize = 0;
    var len: usize = merge_short.len_max;
    var failed_start: usize = 0;
    while (true) {
        const end = @min(start + len, piece.len);
        const ids = try window.merge(gpa, vocabulary, piece[start..end]);
        if (out.items.len > first) {
            const last = out.items[out.items.len - 1];
            const pair_start = start - vocabulary.partLen(last);
            const pair = piece[pair_start .. start + vocabulary.partLen(ids[0])];
            if (!try seam.isPair(gpa, vocabulary, pair, last)) {
                // The kept token cannot stand before this window. Half a window goes back and the
                // window doubles, so that a long row of failures stays linear.
                failed_start = @max(failed_start, start);
                const back = start -| len / 2;
                while (out.items.len > first and start > back) {
                    start -= vocabulary.partLen(out.pop().?);
                }
                len = @min(2 * len, piece.len);
                continue;
            }
        }
        if (end == piece.len) return out.appendSlice(gpa, ids);
        // What ends close to the end of a window could be otherwise with more text behind it.
        const kept = keep(vocabulary, ids, end - start - len / 8 - 16);
        try out.appendSlice(gpa, ids[0..kept.count]);
        if (out.items.len - first >= ids_max) return;
        start += kept.len;
        // Small again once there is progress beyond the last trouble; else larger, so that there
        // will be.
        const progress = kept.count > 0 and start > failed_start;
        len = if (progress) @max(merge_short.len_max, len / 2) else @min(2 * len, piece.len);
    }
}

/// How many of the ids end within `limit` bytes, and how many bytes these are.
fn keep(
    vocabulary: *const Vocabulary,
    ids: []const u32,
    limit: usize,
) struct { count: usize, len: usize } {
    var len: usize = 0;
    for (ids, 0..) |id, count| {
        const end = len + vocabulary.partLen(id);
        if (end > limit) return .{ .count = count, .len = len };
        len = end;
    }
    return .{ .count = ids.len, .len = len };
}
