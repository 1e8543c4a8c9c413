//! Pretoken of any length → ids, window by window.
//!
//! A token sequence is the encoding of its bytes if and only if each two neighbours are the
//! encoding of their bytes. The reason is that the first merge across a boundary involves only the
//! tokens on its two sides (github/rust-gems, crate bpe). Two overlapping windows with *one token
//! in common* can therefore be joined at that token. The result is exact, because every two
//! neighbours of it are neighbours in one of the windows.
//!
//! The next window begins with a token near the end of the previous one, and the two nearly always
//! agree. If they do not, a longer window begins farther back. Windows are short, where merging is
//! fastest, and grow for long tokens. Memory is bounded by one window.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const hashBytes = @import("../vocabulary/token_table.zig").hashBytes;
const Window = @import("window.zig").Window;
const expand = @import("byte_fallback.zig");
const merge_short = @import("short.zig");

/// Windows overlap by this fraction of their length, or by one more token. With 1/5, random letters
/// are 5 % slower. With 1/8, failing windows of spaces and tabs cost more than the smaller overlap
/// saves.
const overlap_part = 7;
/// A window longer than the shortest one has space for this many of its longest token. Then the
/// next window does not begin with the only token of that length.
const tokens_min = 8;

/// Appends the ids of `piece` to `out`. Bytes without a token produce their placeholder ids. Stops
/// early when `ids_max` ids are appended; these are the encoding of the bytes that they cover.
pub fn merge(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    ids_max: usize,
    out: *std.ArrayList(u32),
) Allocator.Error!void {
    const whole = try run(gpa, vocabulary, piece, ids_max, out, null);
    std.debug.assert(whole);
}

/// Number of ids that were counted and discarded.
pub const Counted = struct {
    ids: usize = 0,
    /// A placeholder id of a byte without a token, if there was one.
    stand_in: ?u32 = null,

    fn take(self: *Counted, vocabulary: *const Vocabulary, ids: []const u32) void {
        self.ids += expand.lenOf(vocabulary, ids);
        for (ids) |id| self.stand_in = if (id < vocabulary.ids_end) self.stand_in else id;
    }
};

/// 256 KB of ids, which stay in the CPU's cache. For all ids of a long pretoken the OS would have
/// to map new pages.
pub const kept_max = 1 << 16;

/// Counts the ids of `piece`. At most twice `kept` ids are stored at a time, in `scratch`. If a
/// window has to begin before these, the piece is merged again with all ids stored. No real
/// vocabulary has needed that.
pub fn count(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    kept: usize,
    scratch: *std.ArrayList(u32),
) Allocator.Error!Counted {
    scratch.clearRetainingCapacity();
    var counted: Counted = .{};
    const dropping: Dropping = .{ .kept = kept, .counted = &counted };
    if (!try run(gpa, vocabulary, piece, piece.len, scratch, dropping)) {
        counted = .{};
        scratch.clearRetainingCapacity();
        try merge(gpa, vocabulary, piece, piece.len, scratch);
    }
    counted.take(vocabulary, scratch.items);
    return counted;
}

const Dropping = struct { kept: usize, counted: *Counted };

/// Returns false if a window had to begin with a discarded id.
fn run(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    piece: []const u8,
    ids_max: usize,
    out: *std.ArrayList(u32),
    dropping: ?Dropping,
) Allocator.Error!bool {
    var windows: Windows = .{ .vocabulary = vocabulary, .piece = piece };
    defer windows.large.deinit(gpa);
    const first = out.items.len;
    // The window begins at byte `start` with the token `out[index]`.
    var start: usize = 0;
    var index = first;
    var len: usize = merge_short.len_max;
    var reached: usize = 0;
    var failed = false;
    while (true) {
        const end = @min(start + len, piece.len);
        const ids = try windows.get(gpa, start, end);
        if (start == 0) {
            out.shrinkRetainingCapacity(first);
            try out.appendSlice(gpa, ids);
        } else if (!try join(gpa, vocabulary, out, index, ids)) {
            // Starts half a window farther back, and from the second failure on with twice the
            // length, so that repeated failures take linear time.
            const back = start -| len / 2;
            while (start > back) {
                if (index == first) return false;
                index -= 1;
                start -= vocabulary.partLen(out.items[index]);
            }
            if (failed) len = @min(2 * len, piece.len);
            failed = true;
            continue;
        }
        failed = false;
        if (end == piece.len or out.items.len - first >= ids_max) return true;
        const begun = start;
        index = out.items.len;
        start = end;
        while (start > end - len / overlap_part) {
            if (index == first) return false;
            index -= 1;
            start -= vocabulary.partLen(out.items[index]);
        }
        if (start <= begun or end <= reached) {
            len = @min(2 * len, piece.len);
        } else if (len > merge_short.len_max) {
            len = @max(merge_short.len_max, tokens_min * longest(vocabulary, ids));
        }
        reached = @max(reached, end);
        if (dropping) |drop| if (index > 2 * drop.kept) {
            drop.counted.take(vocabulary, out.items[0 .. index - drop.kept]);
            out.replaceRangeAssumeCapacity(0, index - drop.kept, &.{});
            index = drop.kept;
        };
    }
}

/// Finds the first token that `ids` and the end of `out` have in common, and replaces the tokens
/// after it by those of `ids`. Returns false if there is none. `ids` and `out[index..]` begin at
/// the same byte.
fn join(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    out: *std.ArrayList(u32),
    index: usize,
    ids: []const u32,
) Allocator.Error!bool {
    const common = firstCommon(vocabulary, out.items[index..], ids, .merged) orelse return false;
    out.shrinkRetainingCapacity(index + common.known + 1);
    try out.appendSlice(gpa, ids[common.fresh + 1 ..]);
    return true;
}

/// Indices of the same token in two sequences.
pub const Common = struct { known: usize, fresh: usize };

/// Returns the first token that two sequences have in common, at the same offset. Both begin at the
/// same byte. In expanded sequences only tokens at which joining stays exact count.
pub fn firstCommon(
    vocabulary: *const Vocabulary,
    known: []const u32,
    fresh: []const u32,
    comptime made: enum { merged, expanded },
) ?Common {
    var at: Common = .{ .known = 0, .fresh = 0 };
    // Offset of `known` minus offset of `fresh`.
    var ahead: isize = 0;
    while (at.known < known.len and at.fresh < fresh.len) {
        if (ahead == 0 and known[at.known] == fresh[at.fresh]) {
            if (made == .merged or vocabulary.isJoint(known[at.known])) return at;
        }
        if (ahead <= 0) {
            ahead += @intCast(vocabulary.partLen(known[at.known]));
            at.known += 1;
        } else {
            ahead -= @intCast(vocabulary.partLen(fresh[at.fresh]));
            at.fresh += 1;
        }
    }
    return null;
}

fn longest(vocabulary: *const Vocabulary, ids: []const u32) usize {
    var len: usize = 0;
    for (ids) |id| len = @max(len, vocabulary.partLen(id));
    return len;
}

/// The ids of windows, with a small cache. In runs and other repetitions nearly all windows are
/// equal.
const Windows = struct {
    vocabulary: *const Vocabulary,
    piece: []const u8,
    large: Window = .empty,
    /// Windows with few enough ids for `seen_ids`, indexed by the hash of their bytes.
    seen: [1 << seen_bits]struct { start: usize, len: usize, count: usize } =
        @splat(.{ .start = 0, .len = 0, .count = 0 }),
    seen_ids: [1 << seen_bits][merge_short.len_max]u32 = undefined,

    /// A periodic text has about as many different windows as tokens in its period.
    const seen_bits = 5;

    /// Returns the ids of a window, valid until the next call.
    fn get(self: *Windows, gpa: Allocator, start: usize, end: usize) Allocator.Error![]const u32 {
        const bytes = self.piece[start..end];
        const slot: usize = @intCast(hashBytes(0, bytes) >> (64 - seen_bits));
        const seen = &self.seen[slot];
        const seen_ids = &self.seen_ids[slot];
        if (std.mem.eql(u8, self.piece[seen.start..][0..seen.len], bytes)) {
            return seen_ids[0..seen.count];
        }
        if (bytes.len <= merge_short.len_max) {
            const made = merge_short.merge(self.vocabulary, bytes, seen_ids);
            seen.* = .{ .start = start, .len = bytes.len, .count = made };
            return seen_ids[0..made];
        }
        const ids = try self.large.merge(gpa, self.vocabulary, bytes);
        if (ids.len <= seen_ids.len) {
            seen.* = .{ .start = start, .len = bytes.len, .count = ids.len };
            @memcpy(seen_ids[0..ids.len], ids);
        }
        return ids;
    }
};
