//! Pretoken of any length → ids: window by window.
//!
//! A sequence of tokens is the encoding of its bytes if and only if each two neighbours are the
//! encoding of theirs: the first merge across a boundary needs only the tokens on its two sides
//! (github/rust-gems, crate bpe). So two windows that overlap and have *one token in common* are
//! joined at it, and that is exact: every two neighbours of the result are neighbours in one of
//! the windows. The next window begins with a token near the end of the one before, where the two
//! nearly always agree; if they do not, a longer one begins farther back. Windows are small, where
//! merging is fastest, and grow where tokens are long. Memory is that of one window.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const hashBytes = @import("../vocabulary/token_table.zig").hashBytes;
const Window = @import("window.zig").Window;
const expand = @import("expand.zig");
const merge_short = @import("merge_short.zig");

/// A window overlaps the one before by this part of its length, or by a token more. With 1/5,
/// random letters are 5 % slower, and with 1/8 more windows of blanks and tabs fail than it saves.
const overlap_part = 7;
/// A window that is longer than the shortest has room for so many of its longest token: the next
/// one begins with a token that is not the last of its kind.
const tokens_min = 8;

/// Appends the ids of `piece` to `out`. Bytes without a token come out as their stand-ins.
/// Stops early once `ids_max` of them are there: those are the encoding of the bytes they cover.
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

/// Ids that were counted and are gone.
pub const Counted = struct {
    ids: usize = 0,
    /// One of them that stands for a byte without a token.
    stand_in: ?u32 = null,

    fn take(self: *Counted, vocabulary: *const Vocabulary, ids: []const u32) void {
        self.ids += expand.lenOf(vocabulary, ids);
        for (ids) |id| self.stand_in = if (id < vocabulary.ids_end) self.stand_in else id;
    }
};

/// 256 KB of ids: they stay in the cache, while the memory of all ids of a long pretoken would
/// come from the system page by page.
pub const kept_max = 1 << 16;

/// Counts the ids of `piece` and keeps no more than twice `kept` of them at a time, in `scratch`.
/// Only if a window has to begin before those, which no real vocabulary has shown, all are kept.
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

/// False when a window had to begin with an id that was dropped.
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
            // Half a window farther back and then twice as long each time, so that a row of
            // failures is linear.
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

/// Replaces what follows the first token that `ids` and the end of `out` have in common by what
/// follows it in `ids`; false when there is none. Both begin with the same byte, `out` at `index`.
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

/// Where a token lies in two sequences.
pub const Common = struct { known: usize, fresh: usize };

/// The first token that two sequences have in common, which begin with the same byte; of those
/// whose parts of characters are taken apart, one that joins them all the same.
pub fn firstCommon(
    vocabulary: *const Vocabulary,
    known: []const u32,
    fresh: []const u32,
    comptime made: enum { merged, expanded },
) ?Common {
    var at: Common = .{ .known = 0, .fresh = 0 };
    // How far `known` begins behind `fresh`.
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

/// The ids of windows. Some that were seen are remembered: in runs and other repetitions nearly
/// all are alike.
const Windows = struct {
    vocabulary: *const Vocabulary,
    piece: []const u8,
    large: Window = .empty,
    /// By the hash of its bytes, a window of at most so many ids as the shortest has bytes.
    seen: [1 << seen_bits]struct { start: usize, len: usize, count: usize } =
        @splat(.{ .start = 0, .len = 0, .count = 0 }),
    seen_ids: [1 << seen_bits][merge_short.len_max]u32 = undefined,

    /// A text that repeats itself has about as many different windows as tokens in its period.
    const seen_bits = 5;

    /// Valid until the next call.
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
