//! An editable text → its preprocessed documents and their ids, for changes at the end of the text.
//!
//! The documents are stored end to end, with one byte for each added token between them, in a
//! session of their own (direct.zig). A change of the text is first applied to the documents. They
//! are rebuilt from a normalization boundary, and the session replaces only the bytes that differ.
//! The encoding work is therefore proportional to the change, for any normalizer.
//!
//! A normalization boundary is an offset where the text can be split: before a character that no
//! Unicode normalization form combines with the text before it, and outside of added tokens. Some
//! tokenizers have none, because they replace by a regex, strip whitespace, or have added tokens
//! that depend on their context. For these, each change normalizes the whole text again, but ids
//! are still computed only near the change.
//!
//! **Invariant** the ids are those of the whole text, as `Encoder.encode` returns them. A change
//! that fails leaves text and ids unmodified.

const std = @import("std");
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const encoder_ = @import("../encode/encoder.zig");
const preprocess = @import("../preprocess.zig");
const session_ = @import("direct.zig");
const unicode = @import("../unicode.zig");
const Document = @import("../preprocess/document.zig").Document;
const Effort = @import("../added.zig").Effort;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const List = encoder_.List;
const Boundary = session_.Boundary;
const Replacement = session_.Replacement;
const Tokenizer = @import("../encode/tokenizer.zig").Tokenizer;

/// Default distance of normalization boundaries.
const default_spacing = 64;

/// Represents an added token among the documents.
const boundary_byte = 0xFF;

pub const SafePoint = struct {
    /// Offset in the text, and offset in the documents.
    start: usize = 0,
    at: usize = 0,
    /// Whether a segment continues here. Otherwise a new one begins.
    is_open: bool = false,
    /// One past the last byte of the text on which the documents before it depend.
    reach: usize = 0,
};

pub const Prepared = struct {
    gpa: Allocator,
    session: session_.Session,
    text: std.ArrayList(u8) = .empty,
    safe_points: std.ArrayList(SafePoint) = .empty,
    /// One byte per added token: whether it is searched for.
    choice: ?[]const u8 = null,
    has_safe_points: bool,
    /// There is a normalization boundary after each multiple of this many bytes, if possible. Texts
    /// with the same suffix at the same offset have the same boundaries there.
    spacing: usize = default_spacing,
    /// Offset of the text in a longer one, from which the spacing of boundaries is counted.
    origin: usize = 0,

    /// Returns a session with an empty text. Copies `choice`.
    pub fn init(
        gpa: Allocator,
        tokenizer: *const Tokenizer,
        choice: ?[]const u8,
    ) Allocator.Error!Prepared {
        var self: Prepared = .{
            .gpa = gpa,
            .session = try .init(gpa, tokenizer, null),
            .has_safe_points = tokenizer.preprocessor.hasParts(choice),
        };
        errdefer self.deinit();
        try self.safe_points.append(gpa, .{});
        if (choice) |which| self.choice = try gpa.dupe(u8, which);
        return self;
    }

    pub fn deinit(self: *Prepared) void {
        self.session.deinit();
        self.text.deinit(self.gpa);
        self.safe_points.deinit(self.gpa);
        if (self.choice) |which| self.gpa.free(which);
    }

    pub fn clone(self: *const Prepared) Allocator.Error!Prepared {
        var copy: Prepared = try .init(self.gpa, self.session.tokenizer, self.choice);
        errdefer copy.deinit();
        const session = try self.session.clone();
        copy.session.deinit();
        copy.session = session;
        copy.spacing = self.spacing;
        copy.safe_points.clearRetainingCapacity();
        try copy.safe_points.appendSlice(self.gpa, self.safe_points.items);
        try copy.text.appendSlice(self.gpa, self.text.items);
        return copy;
    }

    /// Replaces all bytes from `cut` on, and returns the number of leading ids that stay unchanged.
    /// `new` must not be memory of the session.
    pub fn replace(
        self: *Prepared,
        encoder: *Encoder,
        cut: usize,
        new: []const u8,
    ) Error!usize {
        const first = self.lastValidCheckpoint(cut);
        const safe_point = self.safe_points.items[first];
        var text: Replacement(u8) = try .init(self.gpa, &self.text, cut, new);
        defer text.deinit(self.gpa);
        errdefer text.undo();
        const scratch = &encoder.scratch;
        var builder: Builder = .{ .prepared = self, .scratch = scratch, .first = safe_point };
        defer builder.deinit();
        try builder.make();
        const same = builder.sameLen();
        const at = safe_point.at + same;
        const boundaries = builder.boundaries.items;
        var known: usize = 0;
        while (known < boundaries.len and boundaries[known].at < at) known += 1;
        const safe_points = builder.safe_points.items;
        try self.safe_points.ensureTotalCapacity(self.gpa, first + 1 + safe_points.len);
        const bytes = builder.bytes.items[same..];
        const kept =
            try self.session.replaceWithBoundaries(encoder, at, bytes, boundaries[known..]);
        self.safe_points.items.len = first + 1;
        self.safe_points.appendSliceAssumeCapacity(safe_points);
        return kept;
    }

    /// Returns a length from which on the text has more than `ids_max` ids, whatever text follows;
    /// null if that is not known.
    pub fn lengthBeyond(self: *const Prepared, ids_max: usize) ?usize {
        const points = self.session.checkpoints.items;
        const index = self.session.checkpointBeyond(ids_max);
        if (index == points.len) return null;
        const at = @max(points[index].start, points[index].reach);
        const behind = std.sort.partitionPoint(SafePoint, self.safe_points.items, at, isBefore);
        if (behind == self.safe_points.items.len) return null;
        const safe_point = self.safe_points.items[behind];
        return @max(safe_point.start, safe_point.reach) + self.slack();
    }

    /// Returns the last normalization boundary before which there are at most `ids_max` ids.
    pub fn startUpTo(self: *const Prepared, ids_max: usize) usize {
        const at = self.session.checkpoints.items[self.session.checkpointBeyond(ids_max) - 1].start;
        const behind = std.sort.partitionPoint(SafePoint, self.safe_points.items, at + 1, isBefore);
        return self.safe_points.items[behind - 1].start;
    }

    fn isBefore(at: usize, safe_point: SafePoint) bool {
        return safe_point.at < at;
    }

    pub fn bytesAfterCheckpoint(self: *const Prepared, cut: usize) usize {
        return self.text.items.len - self.safe_points.items[self.lastValidCheckpoint(cut)].start;
    }

    /// Returns the index of the last boundary that a change of the text from `cut` on does not
    /// affect.
    fn lastValidCheckpoint(self: *const Prepared, cut: usize) usize {
        return self.safePointBefore(cut -| self.slack());
    }

    /// Returns the index of the last boundary that depends only on the first `safe` bytes.
    pub fn safePointBefore(self: *const Prepared, safe: usize) usize {
        return std.sort.partitionPoint(SafePoint, self.safe_points.items, safe, isSettled) -| 1;
    }

    /// Returns the number of bytes of memory.
    pub fn memory(self: *const Prepared) usize {
        return self.session.memory() + self.text.capacity +
            @sizeOf(SafePoint) * self.safe_points.capacity;
    }

    /// Returns the maximum length of an added token, which may begin before a change and end after
    /// it.
    pub fn slack(self: *const Prepared) usize {
        return if (self.choice == null) 0 else self.session.tokenizer.preprocessor.names.len_max;
    }

    fn isSettled(safe: usize, safe_point: SafePoint) bool {
        return safe_point.start <= safe and safe_point.reach <= safe;
    }
};

/// Builds documents from a boundary on.
pub const Builder = struct {
    prepared: *const Prepared,
    scratch: *preprocess.Scratch,
    first: SafePoint,
    bytes: std.ArrayList(u8) = .empty,
    /// Offsets count from the first document.
    boundaries: std.ArrayList(Boundary) = .empty,
    safe_points: std.ArrayList(SafePoint) = .empty,
    /// Possible split points of the current segment.
    cuts: std.ArrayList(Cut) = .empty,
    segment: std.ArrayList(u8) = .empty,

    /// Offset in the text, and offset in the preprocessed segment.
    const Cut = struct { start: usize, at: usize };

    fn deinit(self: *Builder) void {
        const gpa = self.prepared.gpa;
        self.bytes.deinit(gpa);
        self.boundaries.deinit(gpa);
        self.safe_points.deinit(gpa);
        self.cuts.deinit(gpa);
        self.segment.deinit(gpa);
    }

    fn make(self: *Builder) Allocator.Error!void {
        if (!self.prepared.has_safe_points) return self.addPieces();
        const preprocessor = &self.prepared.session.tokenizer.preprocessor;
        const text = self.prepared.text.items;
        var start = self.first.start;
        var is_open = self.first.is_open;
        const choice = self.prepared.choice orelse
            return self.addSegment(start, text.len, is_open);
        var effort: Effort = .{ .gpa = self.prepared.gpa };
        defer effort.deinit();
        var matches = preprocessor.raw.behind(text, start, choice, &effort);
        while (matches.next()) |found| {
            try self.addSegment(start, found.start, is_open);
            try self.addBoundary(if (found.start < found.end) found.id else null);
            start = found.end;
            is_open = false;
            const last = self.safe_points.getLastOrNull() orelse self.first;
            if (start < last.start + self.prepared.spacing) continue;
            try self.addSafePoint(.{ .start = start, .at = self.end(), .reach = start });
        }
        try self.addSegment(start, text.len, is_open);
    }

    fn end(self: *const Builder) usize {
        return self.first.at + self.bytes.items.len;
    }

    fn addBoundary(self: *Builder, id: ?u32) Allocator.Error!void {
        try self.boundaries.append(self.prepared.gpa, .{ .at = self.end(), .id = id });
        try self.bytes.append(self.prepared.gpa, boundary_byte);
    }

    fn addSafePoint(self: *Builder, safe_point: SafePoint) Allocator.Error!void {
        try self.safe_points.append(self.prepared.gpa, safe_point);
    }

    /// Preprocesses the whole text, without safe points.
    fn addPieces(self: *Builder) Allocator.Error!void {
        const prepared = self.prepared;
        const preprocessor = &prepared.session.tokenizer.preprocessor;
        const text = prepared.text.items;
        var pieces: preprocess.Pieces = undefined;
        pieces.init(preprocessor, self.scratch, .{ .text = text, .choice = prepared.choice });
        defer pieces.deinit();
        var in_document = false;
        while (try pieces.next()) |piece| switch (piece) {
            .document => |document| {
                if (in_document) try self.addBoundary(null);
                try self.bytes.appendSlice(prepared.gpa, document.bytes);
                in_document = true;
            },
            .added => |token| {
                try self.addBoundary(token.id);
                in_document = false;
            },
        };
    }

    /// Preprocesses the text from `start` to `finish`, in which no added token matches the raw
    /// text.
    fn addSegment(self: *Builder, start: usize, finish: usize, is_open: bool) Allocator.Error!void {
        if (start >= finish) return;
        const prepared = self.prepared;
        const preprocessor = &prepared.session.tokenizer.preprocessor;
        self.cuts.clearRetainingCapacity();
        self.segment.clearRetainingCapacity();
        var from = start;
        while (from < finish) {
            const to = self.cutBehind(from, finish);
            const part: Document = .of(prepared.text.items, from, to, 0);
            const goes_on = is_open or from > start;
            try preprocessor.addPart(self.scratch, part, goes_on, &self.segment);
            from = to;
            try self.cuts.append(prepared.gpa, .{ .start = to, .at = self.segment.items.len });
        }
        // The end of the segment is not a split point.
        self.cuts.items.len -= 1;
        return self.addNormal(preprocessor);
    }

    /// Returns the next offset after `from` where the text may be split, or `finish`.
    fn cutBehind(self: *const Builder, from: usize, finish: usize) usize {
        const steps = &self.prepared.session.tokenizer.preprocessor.steps;
        const text = self.prepared.text.items;
        const spacing = self.prepared.spacing;
        var index = from + spacing - (self.prepared.origin + from) % spacing;
        while (index < finish) : (index += 1) {
            // Only the first byte of a character: an invalid sequence must not be split.
            if (text[index] & 0xC0 != 0x80 and steps.beginsPart(text, index)) return index;
        }
        return finish;
    }

    /// Splits the segment at added tokens in normalized text.
    fn addNormal(self: *Builder, preprocessor: *const Preprocessor) Allocator.Error!void {
        const bytes = self.segment.items;
        var next: usize = 0;
        var from: usize = 0;
        const finds = preprocessor.findsInNormal(self.prepared.choice);
        var effort: Effort = .{ .gpa = self.prepared.gpa };
        defer effort.deinit();
        var matches = preprocessor.normal.in(bytes, self.prepared.choice orelse "", &effort);
        while (if (finds) matches.next() else null) |found| {
            next = try self.addPiece(preprocessor, next, from, found.start);
            try self.addBoundary(found.id);
            from = found.end;
            // Split points inside an added token are not boundaries.
            while (next < self.cuts.items.len and self.cuts.items[next].at < from) next += 1;
        }
        _ = try self.addPiece(preprocessor, next, from, bytes.len);
    }

    /// Adds a range of the segment and its boundaries, from split point `index`. Returns the index
    /// of the next split point.
    fn addPiece(
        self: *Builder,
        preprocessor: *const Preprocessor,
        index: usize,
        from: usize,
        to: usize,
    ) Allocator.Error!usize {
        const finds = preprocessor.findsInNormal(self.prepared.choice);
        const slack = if (finds) preprocessor.normal.names.len_max else 0;
        const cuts = self.cuts.items;
        var next = index;
        var beyond = index;
        while (next < cuts.len and cuts[next].at <= to) : (next += 1) {
            // The text must extend far enough to find added tokens that begin before the boundary.
            while (beyond < cuts.len and cuts[beyond].at < cuts[next].at + slack) beyond += 1;
            if (beyond == cuts.len) continue;
            const char = unicode.decode(self.prepared.text.items, cuts[beyond].start);
            try self.addSafePoint(.{
                .start = cuts[next].start,
                .at = self.end() + cuts[next].at - from,
                .is_open = true,
                .reach = cuts[beyond].start + char.len,
            });
        }
        try self.bytes.appendSlice(self.prepared.gpa, self.segment.items[from..to]);
        return next;
    }

    /// Returns the number of leading bytes of the documents that are unchanged.
    fn sameLen(self: *const Builder) usize {
        const session = &self.prepared.session;
        const old = session.boundaries.items[session.boundariesBefore(self.first.at)..];
        const new = self.boundaries.items;
        var len = session_.commonLen(session.text.items[self.first.at..], self.bytes.items);
        for (0..@max(old.len, new.len)) |index| {
            if (index < old.len and index < new.len and std.meta.eql(old[index], new[index])) {
                continue;
            }
            if (index < old.len) len = @min(len, old[index].at - self.first.at);
            if (index < new.len) len = @min(len, new[index].at - self.first.at);
            break;
        }
        return len;
    }
};

const Flags = @import("../added.zig").Flags;
const Preprocessor = preprocess.Preprocessor;
const Steps = @import("../normalize.zig").Steps;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

const nfc = [_]u8{0} ** 12;
const lower = [_]u8{1} ++ [_]u8{0} ** 11;
/// Replaces "b" by "aa".
const literal = "\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00baa";
/// Strips whitespace on both sides.
const strip = "\x05\x03" ++ [_]u8{0} ** 10;

/// A tokenizer of bytes and "aa", with the added tokens "<a>" and "<n>".
fn testTokenizer(
    prefix: preprocess.Prefix,
    packed_steps: []const u8,
    flags: [2]Flags,
) !Tokenizer {
    const gpa = std.testing.allocator;
    var bytes: [258]u8 = undefined;
    var lengths: [257]u32 = @splat(1);
    var numbers: [257]u32 = undefined;
    for (&numbers, 0..) |*id, index| id.* = @intCast(index);
    for (bytes[0..256], 0..) |*byte, index| byte.* = @intCast(index);
    bytes[256..].* = "aa".*;
    lengths[256] = 2;
    var culprit: u32 = 0;
    const vocabulary: Vocabulary = try .fromTokens(gpa, &bytes, &lengths, &numbers, 1, &culprit);
    const given: preprocess.PreprocessorOptions = .{
        .names = "<a><n>",
        .lengths = &.{ 3, 3 },
        .ids = &.{ 300, 301 },
        .flags = &flags,
        .prefix = prefix,
        .space_marker = prefix != .never,
    };
    var index: usize = 0;
    const preprocessor: Preprocessor = try .init(gpa, given, try .init(gpa, packed_steps), &index);
    return .init(gpa, vocabulary, .r50k, preprocessor, 1);
}

fn expectWhole(session: *const Prepared, encoder: *Encoder) !void {
    var whole: List = .{ .gpa = std.testing.allocator };
    defer whole.ids.deinit(whole.gpa);
    try encoder.encode(session.text.items, session.choice, &whole);
    try std.testing.expectEqualSlices(u32, whole.ids.items, session.session.ids.items);
}

const some_text = [_][]const u8{
    "a",              "aa",       "b",                   "B",    " ",             "e", "\u{301}",
    "\u{327}\u{301}", "\u{1100}", "\u{1161}",            "<a>",  "<n>",           "<", "n>",
    ">\u{338}",       "\xCC",     "the quick brown fox", "\x81", preprocess.mark,
};

test "prepared: after any change the ids are those of the whole text" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const all_steps = [_][]const u8{ "", &nfc, &nfc ++ &lower ++ literal, strip, strip ++ &nfc };
    const all_flags = [_][2]Flags{
        .{ .{}, .{} },                 .{ .{}, .{ .normalized = true } },
        .{ .{ .lstrip = true }, .{} }, .{ .{}, .{ .normalized = true, .rstrip = true } },
    };
    // The rounds cover all prefixes, steps and choices.
    for (0..@max(20, examples(60))) |round| {
        const prefix = std.enums.values(preprocess.Prefix)[round % 4];
        const flags = all_flags[random.uintLessThan(usize, all_flags.len)];
        var tokenizer = try testTokenizer(prefix, all_steps[round % all_steps.len], flags);
        defer tokenizer.deinit(gpa);
        var encoder: Encoder = .init(gpa, &tokenizer);
        defer encoder.deinit();
        const choices = [_][]const u8{ "\x00\x00", "\x01\x01", "\x01\x01", "\x02\x01" };
        var session: Prepared = try .init(gpa, &tokenizer, choices[round / 4 % choices.len]);
        defer session.deinit();
        var new: std.ArrayList(u8) = .empty;
        defer new.deinit(gpa);
        for (0..60) |_| {
            new.clearRetainingCapacity();
            const piece_max: usize = if (random.uintLessThan(u8, 8) == 0) 200 else 4;
            for (0..random.uintLessThan(usize, piece_max)) |_| {
                try new.appendSlice(gpa, some_text[random.uintLessThan(usize, some_text.len)]);
            }
            const size = session.text.items.len;
            const back = @min(size, random.uintLessThan(usize, if (random.boolean()) 1 else 400));
            _ = try session.replace(&encoder, size - back, new.items);
            try expectWhole(&session, &encoder);
        }
    }
}

test "prepared: a text with normalization boundaries is rebuilt only at its end" {
    const gpa = std.testing.allocator;
    for ([_][]const u8{ "", &nfc, &nfc ++ &lower ++ literal }) |steps| {
        var tokenizer = try testTokenizer(.always, steps, .{ .{}, .{ .normalized = true } });
        defer tokenizer.deinit(gpa);
        var encoder: Encoder = .init(gpa, &tokenizer);
        defer encoder.deinit();
        var session: Prepared = try .init(gpa, &tokenizer, "\x01\x01");
        defer session.deinit();
        _ = try session.replace(&encoder, 0, "the mill <a> grinds <n> \u{8c37}\u{7269}.\n" ** 300);
        const len = session.text.items.len;
        try std.testing.expect(session.bytesAfterCheckpoint(len) < 4 * default_spacing);
        const beyond = session.lengthBeyond(1000).?;
        try std.testing.expect(session.startUpTo(1000) < beyond);
        _ = try session.replace(&encoder, beyond, "");
        try std.testing.expect(session.session.ids.items.len > 1000);
    }
}

test "prepared: running out of memory leaks no memory and leaves the session unchanged" {
    const gpa = std.testing.allocator;
    var tokenizer = try testTokenizer(.always, &nfc, .{ .{}, .{ .normalized = true } });
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
            var session: Prepared = try .init(failing, of, "\x01\x01");
            defer session.deinit();
            _ = try session.replace(&encoder, 0, "e\u{301}bc<a><n>" ++ "ab" ** 100);
            var copy = try session.clone();
            defer copy.deinit();
            errdefer {
                std.debug.assert(std.mem.eql(u8, session.text.items, copy.text.items));
                const inner = copy.session.text.items;
                std.debug.assert(std.mem.eql(u8, session.session.text.items, inner));
            }
            _ = try session.replace(&encoder, 4, "\u{301}abc<n>");
        }
    }.change;
    try std.testing.checkAllAllocationFailures(gpa, change, .{&tokenizer});
}
