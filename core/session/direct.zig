//! An editable text → its ids, for changes at the end of the text; only ids near the change are
//! recomputed.
//!
//! A session records checkpoints from which encoding can resume. A checkpoint contains the number
//! of ids before it, and how far into the text their computation has looked. A change after that
//! offset leaves the checkpoint valid, so encoding resumes at the last valid one. A long pretoken
//! that is still growing (a megabyte of one letter) has no inner checkpoint. There, known tokens
//! are joined with new ones by the rule of merge/long.zig.
//!
//! **Invariant** the ids are those of the whole text, as `Encoder.encode` returns them. A change
//! that fails leaves text and ids unmodified.

const std = @import("std");
const Allocator = std.mem.Allocator;
const encoder_ = @import("../encode/encoder.zig");
const expand = @import("../merge/byte_fallback.zig");
const merge_long = @import("../merge/long.zig");
const pretokens = @import("../pretokens.zig");
const Effort = @import("../added.zig").Effort;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const List = encoder_.List;
const Tokenizer = @import("../encode/tokenizer.zig").Tokenizer;

/// Default distance of checkpoints in bytes. Smaller ones would use more memory than the text.
const default_spacing = 64;

/// A pretoken longer than this, and than any token, is continued from its known tokens. Shorter
/// ones are encoded again in a few microseconds.
const long_min = 512;

/// Bytes of known tokens that are merged again with the text after them. The number is multiplied
/// by four until old and new tokens have one in common.
const overlap = 256;

const Checkpoint = struct {
    /// Offset where the search for the next pretoken begins, and start of its document.
    start: usize = 0,
    document: usize = 0,
    /// Number of ids before it.
    ids_before: usize = 0,
    /// One past the last byte on which any result before it depends.
    reach: usize = 0,
    /// Start of the long pretoken between this checkpoint and the next, if there is one.
    long_start: ?usize = null,
};

/// An added token, or a boundary between two documents. It occupies one byte of the text that
/// belongs to no document.
pub const Boundary = struct { at: usize, id: ?u32 };

pub const Session = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    /// One byte per added token: whether it is searched for.
    allowed: ?[]const u8,
    text: std.ArrayList(u8) = .empty,
    /// In order. Only preprocessed text has boundaries (prepared.zig). Added tokens are not
    /// searched for in such text.
    boundaries: std.ArrayList(Boundary) = .empty,
    ids: std.ArrayList(u32) = .empty,
    checkpoints: std.ArrayList(Checkpoint) = .empty,
    /// Minimum distance of checkpoints in bytes.
    spacing: usize = default_spacing,
    /// Known runs of the document that begins at `known_document`.
    known: pretokens.Known = .{},
    known_document: usize = 0,
    /// Number of bytes merged so far. Tests use it to check that little work is done.
    bytes_encoded: u64 = 0,

    /// Copies `choice`. Null means that no added tokens are searched for. With this choice
    /// `Preprocessor.isDirect` must hold.
    pub fn init(
        gpa: Allocator,
        tokenizer: *const Tokenizer,
        choice: ?[]const u8,
    ) Allocator.Error!Session {
        var self: Session = .{ .gpa = gpa, .tokenizer = tokenizer, .allowed = null };
        errdefer self.deinit();
        try self.checkpoints.append(gpa, .{});
        if (choice) |which| self.allowed = try gpa.dupe(u8, which);
        return self;
    }

    pub fn deinit(self: *Session) void {
        if (self.allowed) |which| self.gpa.free(which);
        self.text.deinit(self.gpa);
        self.boundaries.deinit(self.gpa);
        self.ids.deinit(self.gpa);
        self.checkpoints.deinit(self.gpa);
        self.known.deinit(self.gpa);
    }

    pub fn clone(self: *const Session) Allocator.Error!Session {
        var copy: Session = try .init(self.gpa, self.tokenizer, self.allowed);
        errdefer copy.deinit();
        copy.spacing = self.spacing;
        try copy.text.appendSlice(self.gpa, self.text.items);
        try copy.boundaries.appendSlice(self.gpa, self.boundaries.items);
        try copy.ids.appendSlice(self.gpa, self.ids.items);
        copy.checkpoints.clearRetainingCapacity();
        try copy.checkpoints.appendSlice(self.gpa, self.checkpoints.items);
        return copy;
    }

    /// Replaces all bytes from `cut` on, and returns the number of leading ids that stay unchanged.
    /// `new` must not be memory of the session.
    pub fn replace(
        self: *Session,
        encoder: *Encoder,
        cut: usize,
        new: []const u8,
    ) Error!usize {
        return self.replaceWithBoundaries(encoder, cut, new, &.{});
    }

    /// The same with the boundaries in `new`, whose offsets count from the start of the text.
    pub fn replaceWithBoundaries(
        self: *Session,
        encoder: *Encoder,
        cut: usize,
        new: []const u8,
        boundaries: []const Boundary,
    ) Error!usize {
        var text: Replacement(u8) = try .init(self.gpa, &self.text, cut, new);
        defer text.deinit(self.gpa);
        errdefer text.undo();
        const first = self.boundariesBefore(cut);
        var swapped: Replacement(Boundary) =
            try .init(self.gpa, &self.boundaries, first, boundaries);
        defer swapped.deinit(self.gpa);
        errdefer swapped.undo();
        self.known.forgetFrom(cut -| self.known_document);
        errdefer self.known.forgetFrom(0);
        var change: Change = try .init(self, encoder, cut);
        defer change.deinit();
        try change.encode();
        return change.commit();
    }

    /// Returns the number of bytes after the checkpoint from which a change at `cut` resumes.
    pub fn bytesAfterCheckpoint(self: *const Session, cut: usize) usize {
        return self.text.items.len - self.checkpoints.items[self.lastValidCheckpoint(cut)].start;
    }

    /// Returns the index of the first checkpoint with more than `ids_max` ids before it, or the
    /// number of checkpoints.
    pub fn checkpointBeyond(self: *const Session, ids_max: usize) usize {
        return std.sort.partitionPoint(Checkpoint, self.checkpoints.items, ids_max, hasUpTo);
    }

    fn hasUpTo(ids_max: usize, checkpoint: Checkpoint) bool {
        return checkpoint.ids_before <= ids_max;
    }

    /// Returns the number of boundaries before an offset of the text.
    pub fn boundariesBefore(self: *const Session, at: usize) usize {
        return std.sort.partitionPoint(Boundary, self.boundaries.items, at, isBefore);
    }

    fn isBefore(at: usize, boundary: Boundary) bool {
        return boundary.at < at;
    }

    /// Returns the index of the last checkpoint that a change of the text from `cut` on does not
    /// affect.
    fn lastValidCheckpoint(self: *const Session, cut: usize) usize {
        // An added token may begin before the cut and end after it. It would end a document
        // earlier.
        const len_max = self.tokenizer.preprocessor.names.len_max;
        return self.checkpointBefore(cut -| if (self.allowed == null) 0 else len_max);
    }

    /// Returns the index of the last checkpoint that depends only on the first `safe` bytes.
    pub fn checkpointBefore(self: *const Session, safe: usize) usize {
        return std.sort.partitionPoint(Checkpoint, self.checkpoints.items, safe, isSettled) -| 1;
    }

    /// Returns the number of bytes of memory.
    pub fn memory(self: *const Session) usize {
        return self.text.capacity + 4 * self.ids.capacity + @sizeOf(Boundary) *
            self.boundaries.capacity + @sizeOf(Checkpoint) * self.checkpoints.capacity;
    }

    fn isSettled(safe: usize, checkpoint: Checkpoint) bool {
        return checkpoint.start <= safe and checkpoint.reach <= safe;
    }
};

/// Replaces the end of a list, and can undo that.
pub fn Replacement(comptime Item: type) type {
    return struct {
        list: *std.ArrayList(Item),
        start: usize,
        removed: []Item,

        const Self = @This();

        /// `new` must not be memory of the list. If it fails, the list is unchanged.
        pub fn init(
            gpa: Allocator,
            list: *std.ArrayList(Item),
            start: usize,
            new: []const Item,
        ) Allocator.Error!Self {
            try list.ensureTotalCapacity(gpa, start + new.len);
            const removed = try gpa.dupe(Item, list.items[start..]);
            list.items.len = start;
            list.appendSliceAssumeCapacity(new);
            return .{ .list = list, .start = start, .removed = removed };
        }

        pub fn deinit(self: *Self, gpa: Allocator) void {
            gpa.free(self.removed);
        }

        pub fn undo(self: *Self) void {
            self.list.items.len = self.start;
            self.list.appendSliceAssumeCapacity(self.removed);
        }
    };
}

/// Returns the length of the common prefix of two texts.
pub fn commonLen(a: []const u8, b: []const u8) usize {
    const len = @min(a.len, b.len);
    // Comparing blocks is ten times as fast as comparing single bytes.
    const step = 256;
    var start: usize = 0;
    while (start + step <= len and std.mem.eql(u8, a[start..][0..step], b[start..][0..step])) {
        start += step;
    }
    while (start < len and a[start] == b[start]) start += 1;
    return start;
}

/// One change before it is committed: the session has the new text but still the old ids.
const Change = struct {
    session: *Session,
    encoder: *Encoder,
    cut: usize,
    first_checkpoint: usize,
    /// The first `ids_kept` ids stay. Those in `fresh` follow.
    ids_kept: usize,
    fresh: List,
    checkpoints: std.ArrayList(Checkpoint) = .empty,
    tail: std.ArrayList(u32) = .empty,
    document: usize,
    reach: usize,

    fn init(session: *Session, encoder: *Encoder, cut: usize) Allocator.Error!Change {
        const first = session.lastValidCheckpoint(cut);
        const checkpoint = session.checkpoints.items[first];
        var self: Change = .{
            .session = session,
            .encoder = encoder,
            .cut = cut,
            .first_checkpoint = first,
            .ids_kept = checkpoint.ids_before,
            .fresh = .{ .gpa = session.gpa },
            .document = checkpoint.document,
            .reach = checkpoint.reach,
        };
        try self.addCheckpoint(checkpoint.start);
        return self;
    }

    fn deinit(self: *Change) void {
        self.fresh.ids.deinit(self.session.gpa);
        self.checkpoints.deinit(self.session.gpa);
        self.tail.deinit(self.session.gpa);
    }

    /// Adds a checkpoint at `start`, unless the last one is there.
    fn addCheckpoint(self: *Change, start: usize) Allocator.Error!void {
        if (self.checkpoints.getLastOrNull()) |last| {
            if (last.start == start and last.document == self.document) return;
        }
        try self.checkpoints.append(self.session.gpa, .{
            .start = start,
            .document = self.document,
            .ids_before = self.ids_kept + self.fresh.ids.items.len,
            .reach = self.reach,
        });
    }

    fn lastCheckpoint(self: *Change) *Checkpoint {
        return &self.checkpoints.items[self.checkpoints.items.len - 1];
    }

    fn encode(self: *Change) Error!void {
        const text = self.session.text.items;
        var start = self.lastCheckpoint().start;
        if (self.session.allowed) |which| {
            const added = &self.session.tokenizer.preprocessor.raw;
            var effort: Effort = .{ .gpa = self.session.gpa };
            defer effort.deinit();
            var search = added.names.search(text, start, which, &effort);
            while (search.next()) |found| {
                try self.encodeDocument(start, found.start);
                try self.fresh.push(added.ids[found.index..][0..1]);
                start = found.end;
                self.document = start;
                // The pretokens before it end with their document.
                self.reach = @min(@max(self.reach, found.start + 1), found.end);
                try self.addCheckpoint(start);
            }
        }
        for (self.session.boundaries.items[self.session.boundariesBefore(start)..]) |boundary| {
            try self.encodeDocument(start, boundary.at);
            if (boundary.id) |id| try self.fresh.push(&.{id});
            start = boundary.at + 1;
            self.document = start;
            self.reach = @max(self.reach, start);
            try self.addCheckpoint(start);
        }
        try self.encodeDocument(start, text.len);
    }

    /// Encodes the rest of the document that ends at `end`.
    fn encodeDocument(self: *Change, start: usize, end: usize) Error!void {
        const text = self.session.text.items[self.document..end];
        var sweep: pretokens.Sweep = undefined;
        sweep.init(self.session.gpa, &self.session.tokenizer.scheme, text);
        defer sweep.deinit();
        sweep.index = start - self.document;
        if (self.session.known_document != self.document) {
            self.session.known.forgetFrom(0);
            self.session.known_document = self.document;
        }
        sweep.known = &self.session.known;
        if (sweep.matcher) |*matcher| try self.session.known.tell(self.session.gpa, matcher);
        while (true) {
            const from = sweep.index;
            const batch = try sweep.next() orelse break;
            try self.encodeBatch(&sweep, batch, from);
            self.see(&sweep, sweep.index);
            const at = self.document + sweep.index;
            const is_far = at - self.lastCheckpoint().start >= self.session.spacing;
            if (is_far and sweep.canRestart()) try self.addCheckpoint(at);
        }
        if (sweep.matcher) |*matcher| self.session.known.learn(matcher);
        // A search without a result has looked as far as the end.
        self.reach = @max(self.reach, self.document + sweep.reach);
    }

    /// Records an upper bound on how far the pretokens before `index` have looked.
    fn see(self: *Change, sweep: *const pretokens.Sweep, index: usize) void {
        const reach = switch (sweep.scheme.*) {
            .program, .stages => sweep.reach,
            else => pretokens.reachOf(sweep.scheme, sweep.text, index, sweep.known),
        };
        self.reach = @max(self.reach, self.document + reach);
    }

    /// Encodes a batch whose search began at `from`. Its last long pretoken may still be growing,
    /// so it is encoded separately.
    fn encodeBatch(
        self: *Change,
        sweep: *const pretokens.Sweep,
        batch: pretokens.Batch,
        from: usize,
    ) Error!void {
        // A pre-tokenizer of several stages can restart at few offsets, not at every pretoken.
        if (sweep.scheme.* == .stages) return self.encodeShort(batch);
        const long_len = @max(long_min, self.session.tokenizer.vocabulary.token_len_max);
        if (batch.ends.len == 0) {
            if (batch.len > long_len) return self.encodeLong(sweep, batch, from);
            return self.encodeShort(batch);
        }
        var index = batch.ends.len;
        while (index > 0) : (index -= 1) {
            const start = if (index == 1) 0 else batch.ends[index - 2];
            if (batch.ends[index - 1] - start > long_len) break;
        } else return self.encodeShort(batch);
        var ends: [pretokens.blocks.ends_max]u32 = undefined;
        const before = batch.part(0, index - 1, &ends);
        if (before.len > 0) {
            try self.encodeShort(before);
            self.see(sweep, batch.start + before.len);
        }
        const long = batch.part(index - 1, index, &ends);
        try self.encodeLong(sweep, long, if (before.len > 0) long.start else from);
        const behind = batch.part(index, batch.ends.len, &ends);
        if (behind.len > 0) try self.encodeShort(behind);
    }

    fn encodeShort(self: *Change, batch: pretokens.Batch) Error!void {
        self.session.bytes_encoded += batch.len;
        try self.encoder.encodeBatch(batch, &self.fresh);
    }

    /// Encodes one long pretoken between two checkpoints, starting from its known tokens.
    fn encodeLong(
        self: *Change,
        sweep: *const pretokens.Sweep,
        batch: pretokens.Batch,
        from: usize,
    ) Error!void {
        const start = self.document + batch.start;
        try self.addCheckpoint(self.document + from);
        self.lastCheckpoint().long_start = start;
        try self.encoder.merger.pollAfter(batch.len);
        try self.mergeLong(start, sweep.text[batch.start..][0..batch.len]);
        self.see(sweep, batch.start + batch.len);
        try self.addCheckpoint(start + batch.len);
    }

    fn mergeLong(self: *Change, start: usize, piece: []const u8) Error!void {
        const session = self.session;
        const vocabulary = &session.tokenizer.vocabulary;
        const old = session.ids.items;
        const is_whole = vocabulary.leftover == .settle or vocabulary.isTied(piece);
        const known: Known = if (is_whole) .{} else self.knownOf(start, piece.len);
        var back: usize = overlap;
        while (true) : (back *|= 4) {
            var index = known.ids_end;
            var at = known.len;
            while (index > known.ids_start and known.len - at < back) {
                index -= 1;
                at -= vocabulary.partLen(old[index]);
            }
            session.bytes_encoded += piece.len - at;
            if (at == 0) return self.encoder.encodePretoken(piece, &self.fresh);
            self.tail.clearRetainingCapacity();
            const rest = piece[at..];
            try merge_long.merge(session.gpa, vocabulary, rest, rest.len, &self.tail);
            try self.encoder.merger.refuseStandIns(self.tail.items);
            try expand.inList(session.gpa, vocabulary, &self.tail, 0);
            const tail = self.tail.items;
            const last = old[index..known.ids_end];
            const common = merge_long.firstCommon(vocabulary, last, tail, .expanded) orelse
                continue;
            try self.keep(known.ids_start, index + common.known + 1);
            return self.fresh.push(tail[common.fresh + 1 ..]);
        }
    }

    /// Ids that encode the first `len` bytes of a pretoken.
    const Known = struct { ids_start: usize = 0, ids_end: usize = 0, len: usize = 0 };

    /// Returns the known ids of a pretoken that begins at `start` and has `len_max` bytes.
    fn knownOf(self: *const Change, start: usize, len_max: usize) Known {
        const checkpoints = self.session.checkpoints.items;
        const behind = std.sort.partitionPoint(Checkpoint, checkpoints, start, isUpTo);
        // The search for it began at a checkpoint, and the next checkpoint is after it.
        if (behind == 0 or behind == checkpoints.len) return .{};
        const checkpoint = checkpoints[behind - 1];
        if (checkpoint.long_start == null or checkpoint.long_start.? != start) return .{};
        var known: Known = .{
            .ids_start = checkpoint.ids_before,
            .ids_end = checkpoints[behind].ids_before,
            .len = checkpoints[behind].start - start,
        };
        const len = @min(self.cut -| start, len_max);
        while (known.len > len) {
            known.ids_end -= 1;
            const id = self.session.ids.items[known.ids_end];
            known.len -= self.session.tokenizer.vocabulary.partLen(id);
        }
        return known;
    }

    fn isUpTo(start: usize, checkpoint: Checkpoint) bool {
        return checkpoint.start <= start;
    }

    /// Appends ids of the old list to the result. If they are already at the right index, they are
    /// not moved.
    fn keep(self: *Change, start: usize, end: usize) Allocator.Error!void {
        const old = self.session.ids.items;
        const fresh = self.fresh.ids.items;
        const is_there = self.ids_kept + fresh.len == start and
            std.mem.eql(u32, old[self.ids_kept..start], fresh);
        if (!is_there) return self.fresh.push(old[start..end]);
        self.ids_kept = end;
        self.fresh.ids.clearRetainingCapacity();
    }

    /// Stores the new ids and checkpoints. Leaves the session unmodified if memory runs out.
    fn commit(self: *Change) Allocator.Error!usize {
        const session = self.session;
        const fresh = self.fresh.ids.items;
        try session.ids.ensureTotalCapacity(session.gpa, self.ids_kept + fresh.len);
        const checkpoint_count = self.first_checkpoint + self.checkpoints.items.len;
        try session.checkpoints.ensureTotalCapacity(session.gpa, checkpoint_count);
        const old = session.ids.items[self.ids_kept..];
        const same = std.mem.indexOfDiff(u32, old, fresh) orelse fresh.len;
        session.ids.items.len = self.ids_kept;
        session.ids.appendSliceAssumeCapacity(fresh);
        session.checkpoints.items.len = self.first_checkpoint;
        session.checkpoints.appendSliceAssumeCapacity(self.checkpoints.items);
        return self.ids_kept + same;
    }
};

const preprocess = @import("../preprocess.zig");
const testing = @import("../merge/testing.zig");
const Steps = @import("../normalize.zig").Steps;

test "session: after any change the ids are those of the whole text" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    for (0..30) |round| {
        const schemes = [_]pretokens.Scheme{
            .r50k,   .o200k,              .llama3,                   .tekken,
            .qwen35, .{ .safe = .whole }, .{ .metaspace = .blanks },
        };
        var tokenizer = try randomTokenizer(random, schemes[round % schemes.len]);
        defer tokenizer.deinit(gpa);
        var encoder: Encoder = .init(gpa, &tokenizer);
        defer encoder.deinit();
        var session: Session = try .init(gpa, &tokenizer, if (round % 3 == 0) null else "\x01\x01");
        defer session.deinit();
        var before: std.ArrayList(u32) = .empty;
        defer before.deinit(gpa);
        for (0..60) |_| {
            var new: [900]u8 = undefined;
            // Mostly short texts, and occasionally one with a long pretoken.
            const len = random.uintLessThan(usize, if (random.uintLessThan(u8, 8) == 0) 900 else 9);
            for (new[0..len]) |*byte| byte.* = "aaaaaabc"[random.uintLessThan(usize, 8)];
            const is_special = session.allowed != null and random.boolean();
            const part = "<a>bc"[0 .. 1 + random.uintLessThan(usize, 5)];
            const text = if (is_special) part else new[0..len];
            const size = session.text.items.len;
            const back = @min(size, random.uintLessThan(usize, if (random.boolean()) 1 else 700));
            before.clearRetainingCapacity();
            try before.appendSlice(gpa, session.ids.items);
            const kept = session.replace(&encoder, size - back, text) catch |failure| {
                // An incomplete special token is text, and "<" has no token, so the change fails.
                try std.testing.expectEqual(error.MissingByte, failure);
                try std.testing.expectEqual(size, session.text.items.len);
                try std.testing.expectEqualSlices(u32, before.items, session.ids.items);
                continue;
            };
            try expectWhole(&session, &encoder);
            const same = session.ids.items[0..kept];
            try std.testing.expectEqualSlices(u32, before.items[0..kept], same);
        }
    }
}

/// A tokenizer of three letters, with the special tokens "<a>" and "<a>bc".
fn randomTokenizer(random: std.Random, scheme: pretokens.Scheme) !Tokenizer {
    const gpa = std.testing.allocator;
    var vocabulary = try testing.randomVocabulary(random, .by_length);
    const given: preprocess.PreprocessorOptions = .{
        .names = "<a><a>bc",
        .lengths = &.{ 3, 5 },
        .ids = &.{ 9000, 9001 },
        .flags = &.{ .{ .special = true }, .{ .special = true } },
    };
    var culprit: usize = 0;
    const steps = try Steps.init(gpa, "");
    const preprocessor = preprocess.Preprocessor.init(gpa, given, steps, &culprit) catch |failure| {
        vocabulary.deinit(gpa);
        return failure;
    };
    return .init(gpa, vocabulary, scheme, preprocessor, random.int(u64));
}

fn expectWhole(session: *const Session, encoder: *Encoder) !void {
    var whole: List = .{ .gpa = std.testing.allocator };
    defer whole.ids.deinit(whole.gpa);
    try encoder.encode(session.text.items, session.allowed, &whole);
    try std.testing.expectEqualSlices(u32, whole.ids.items, session.ids.items);
}

test "session: a long growing pretoken resumes from its known tokens" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    var tokenizer = try randomTokenizer(prng.random(), .cl100k);
    defer tokenizer.deinit(gpa);
    var encoder: Encoder = .init(gpa, &tokenizer);
    defer encoder.deinit();
    var session: Session = try .init(gpa, &tokenizer, null);
    defer session.deinit();
    _ = try session.replace(&encoder, 0, &@as([20_000]u8, @splat('b')));
    session.bytes_encoded = 0;
    for (0..100) |_| _ = try session.replace(&encoder, session.text.items.len, "bbbbbbbbbb");
    try expectWhole(&session, &encoder);
    try std.testing.expect(session.bytes_encoded < 100 * 20_000 / 10);
}

test "session: running out of memory leaks no memory and leaves the session unchanged" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    var tokenizer = try randomTokenizer(prng.random(), .r50k);
    defer tokenizer.deinit(gpa);
    const change = struct {
        fn change(failing: Allocator, of: *const Tokenizer) !void {
            const scratch: preprocess.Scratch = .{ .gpa = failing };
            var encoder: Encoder = .{
                .gpa = failing,
                .tokenizer = of,
                .merger = .init(failing, &of.vocabulary),
                .scratch = scratch,
            };
            defer encoder.deinit();
            var session: Session = try .init(failing, of, "\x01\x01");
            defer session.deinit();
            _ = try session.replace(&encoder, 0, "abc<a>" ++ "ab" ** 400);
            var copy = try session.clone();
            defer copy.deinit();
            errdefer std.debug.assert(std.mem.eql(u8, session.text.items, copy.text.items));
            _ = try session.replace(&encoder, 30, "abc");
        }
    }.change;
    try std.testing.checkAllAllocationFailures(gpa, change, .{&tokenizer});
}
