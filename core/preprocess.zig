//! Text → documents: added tokens are split off, and the text between them is preprocessed.
//!
//! Added tokens that match the raw text split it into segments. A segment is normalized, gets its
//! prepended space, and "▁" becomes a space if the tokenizer treats the two as equal. Added tokens
//! that match normalized text split it again. The remaining stretches are the documents, which
//! become pretokens. Unchanged text is not copied.
//!
//! **Invariant** the result depends only on the segment and on whether the text begins there.

const std = @import("std");
const Allocator = std.mem.Allocator;
const added = @import("added.zig");
const normal = @import("normalize.zig");
const unicode = @import("unicode.zig");
const Failure = @import("failure.zig").Failure;
const Document = @import("preprocess/document.zig").Document;
const Maker = @import("preprocess/names.zig").Maker;
const Split = @import("preprocess/split.zig").Split;
pub const Scratch = @import("preprocess/scratch.zig").Scratch;
pub const mark = @import("preprocess/scratch.zig").mark;

/// Whether a space is prepended to a segment.
pub const Prefix = enum {
    never,
    /// A space is prepended before normalization, so added tokens in normalized text follow it.
    always,
    /// A space is prepended to each document that does not begin with one.
    missing,
    /// The same, but only at the start of the text.
    missing_first,
};

/// The preprocessing settings of a tokenizer, as the caller passes them.
pub const PreprocessorOptions = struct {
    /// The texts of the added tokens: sorted, distinct, not empty, concatenated, with lengths.
    names: []const u8 = "",
    lengths: []const u32 = &.{},
    ids: []const u32 = &.{},
    flags: []const added.Flags = &.{},
    prefix: Prefix = .never,
    /// Whether `mark` is treated as a space.
    space_marker: bool = false,

    /// See `Preprocessor.is_late`. An added token with lstrip or rstrip does not strip marks, which
    /// become spaces later. Tokenizers whose normalizer replaces spaces by marks have no such
    /// token.
    fn isLate(self: *const PreprocessorOptions) bool {
        if (self.prefix != .never) return self.prefix != .always;
        if (!self.space_marker) return false;
        return for (self.flags) |flags| {
            if (flags.normalized and (flags.lstrip or flags.rstrip)) break true;
        } else false;
    }
};

pub const Error = error{
    OutOfMemory,
    /// Normalization leaves an empty token text. `culprit` is the index of the token.
    EmptyName,
};

/// Returns the reason for options that cannot be used. `culprit` is the index of an added token.
pub fn failureOf(failure: Error, options: PreprocessorOptions, culprit: usize) Failure {
    if (failure == error.OutOfMemory) return .out_of_memory;
    var start: usize = 0;
    for (options.lengths[0..culprit]) |length| start += length;
    const name = options.names[start..][0..options.lengths[culprit]];
    const format = "added token '{s}' is empty after normalization; " ++
        "use another text, or normalized=False";
    return .init(.vocabulary, format, .{name[0..@min(80, name.len)]});
}

pub const Preprocessor = struct {
    /// The token texts in the order of `PreprocessorOptions`, which is also the order of a choice.
    names: added.Names,
    ids: []const u32,
    /// The added tokens that match raw text, and those that match normalized text.
    raw: added.Added,
    normal: added.Added,
    steps: normal.Steps,
    prefix: Prefix,
    space_marker: bool,
    /// The default choice: added tokens that are not special. Null if all are special.
    default: ?[]const u8,
    /// `is_plain`: every segment is a document. `is_light`: a segment is a document if it has no
    /// mark and gets no space at the start of the text.
    is_plain: bool,
    is_light: bool,
    /// Whether added tokens match independently of the text next to them.
    is_local: bool,
    /// Whether spaces and marks are handled after added tokens in normalized text are split off.
    is_late: bool,

    /// Takes ownership of `steps`, which are freed if the call fails.
    pub fn init(
        gpa: Allocator,
        given: PreprocessorOptions,
        steps: normal.Steps,
        culprit: *usize,
    ) Error!Preprocessor {
        var parts = steps;
        errdefer parts.deinit(gpa);
        var names: added.Names = try .init(gpa, given.names, given.lengths, null);
        errdefer names.deinit(gpa);
        var makers: [2]Maker = @splat(.{});
        defer for (&makers) |*maker| maker.deinit(gpa);
        var is_local = true;
        var has_default = false;
        const default = try gpa.alloc(u8, given.ids.len);
        errdefer gpa.free(default);
        for (given.flags, 0..) |flags, index| {
            default[index] = @intFromBool(!flags.special);
            has_default = has_default or !flags.special;
            is_local = is_local and !flags.lstrip and !flags.rstrip and !flags.single_word;
            const entry: Maker.Entry = .{
                .name = names.name(index),
                .place = @intCast(index),
                .id = given.ids[index],
                .flags = flags,
            };
            try makers[@intFromBool(flags.normalized)].entries.append(gpa, entry);
        }
        const is_late = given.isLate();
        for (makers[1].entries.items) |*entry| {
            culprit.* = entry.place;
            const prefix: ?Prefix = if (is_late) null else given.prefix;
            const folds = given.space_marker;
            entry.name =
                try makers[1].normalise(gpa, entry.name, entry.flags, &parts, prefix, folds);
            if (entry.name.len == 0) return error.EmptyName;
        }
        var raw = try makers[0].make(gpa);
        errdefer raw.deinit(gpa);
        var in_normal = try makers[1].make(gpa);
        errdefer in_normal.deinit(gpa);
        const is_light = parts.isEmpty() and in_normal.ids.len == 0 and
            (given.prefix == .never or given.prefix == .missing_first);
        return .{
            .names = names,
            .ids = try gpa.dupe(u32, given.ids),
            .raw = raw,
            .normal = in_normal,
            .steps = parts,
            .prefix = given.prefix,
            .space_marker = given.space_marker,
            .default = if (has_default) default else blk: {
                gpa.free(default);
                break :blk null;
            },
            .is_plain = is_light and given.prefix == .never and !given.space_marker,
            .is_light = is_light,
            .is_local = is_local,
            .is_late = is_late,
        };
    }

    pub fn deinit(self: *Preprocessor, gpa: Allocator) void {
        self.names.deinit(gpa);
        gpa.free(self.ids);
        self.raw.deinit(gpa);
        self.normal.deinit(gpa);
        self.steps.deinit(gpa);
        if (self.default) |default| gpa.free(default);
        self.* = undefined;
    }

    /// Returns the text of the added token with this id, if there is one.
    pub fn nameOf(self: *const Preprocessor, id: u32) ?[]const u8 {
        const index = std.mem.indexOfScalar(u32, self.ids, id) orelse return null;
        return self.names.name(index);
    }

    /// Returns the reason if `allowed` does not have one byte per added token.
    pub fn choiceFailureOf(self: *const Preprocessor, allowed: []const u8) ?Failure {
        if (allowed.len == self.ids.len) return null;
        const format = "got a choice of {d} added tokens, expected {d}";
        return .init(.value, format, .{ allowed.len, self.ids.len });
    }

    /// Returns one byte per added token, or null if no added token is searched for.
    pub fn choiceOf(self: *const Preprocessor, allowed: ?[]const u8) ?[]const u8 {
        return allowed orelse self.default;
    }

    /// Upper bound on the number of ids of `text_len` bytes, or null if a normalizer is used.
    pub fn idsMax(self: *const Preprocessor, text_len: usize) ?usize {
        if (!self.steps.isEmpty()) return null;
        // A segment and an added token have at least one byte, and a segment gains at most one.
        return if (self.prefix == .never) text_len else 2 * text_len;
    }

    /// Whether the documents of a long text can be found without encoding it.
    pub fn isSimple(self: *const Preprocessor) bool {
        return self.is_local and self.steps.isEmpty() and self.normal.ids.len == 0;
    }

    /// Whether documents are exactly the text between the added tokens that a choice finds.
    pub fn isDirect(self: *const Preprocessor, choice: ?[]const u8) bool {
        if (!self.steps.isEmpty() or self.prefix != .never or self.space_marker) return false;
        return self.findsLocally(choice) and !self.findsInNormal(choice);
    }

    /// Whether a text can be preprocessed in chunks, with the added tokens that a choice finds.
    pub fn hasParts(self: *const Preprocessor, choice: ?[]const u8) bool {
        if (!self.steps.haveParts() or !self.findsLocally(choice)) return false;
        // After an added token in normalized text a new document begins, which gets its own space.
        return !self.is_late or !self.findsInNormal(choice);
    }

    /// Whether each added token in the choice matches independently of the text next to it.
    fn findsLocally(self: *const Preprocessor, choice: ?[]const u8) bool {
        const which = choice orelse return true;
        for ([_]*const added.Added{ &self.raw, &self.normal }) |names| {
            for (names.flags, names.names.places) |flags, place| {
                switch (@as(added.Choice, @enumFromInt(which[place]))) {
                    .unsought => {},
                    .found => if (flags.lstrip or flags.rstrip or flags.single_word) return false,
                    else => return false,
                }
            }
        }
        return true;
    }

    /// Whether the choice contains added tokens that match normalized text.
    pub fn findsInNormal(self: *const Preprocessor, choice: ?[]const u8) bool {
        const which = choice orelse return false;
        for (self.normal.names.places) |place| if (which[place] != 0) return true;
        return false;
    }

    /// Appends a preprocessed chunk to `out`. `is_open`: its segment began in an earlier chunk.
    pub fn addPart(
        self: *const Preprocessor,
        scratch: *Scratch,
        part: Document,
        is_open: bool,
        out: *std.ArrayList(u8),
    ) Allocator.Error!void {
        var changed = try self.steps.apply(scratch.gpa, part.bytes, false);
        defer if (changed) |*some| some.deinit(scratch.gpa);
        var whole = part;
        if (changed) |some| whole.bytes = some.bytes;
        const made = if (is_open)
            try scratch.ready(whole, false, self.space_marker, false)
        else
            try self.documentOf(scratch, whole);
        try out.appendSlice(scratch.gpa, made.bytes);
    }

    /// Returns the document of a segment that has no normalization steps and no added tokens
    /// inside.
    pub fn documentOf(
        self: *const Preprocessor,
        scratch: *Scratch,
        segment: Document,
    ) Allocator.Error!Document {
        if (self.is_plain) return segment;
        const wanted = switch (self.prefix) {
            .never => false,
            .always => segment.bytes.len > 0,
            .missing, .missing_first => self.lacksBlank(segment),
        };
        return scratch.ready(segment, wanted, self.space_marker, false);
    }

    /// Whether a space is to be prepended to a document.
    fn lacksBlank(self: *const Preprocessor, document: Document) bool {
        const bytes = document.bytes;
        if (self.prefix == .never or bytes.len == 0 or bytes[0] == ' ') return false;
        if (self.space_marker and std.mem.startsWith(u8, bytes, mark)) return false;
        return self.prefix == .missing or document.spanOf(0, 1).start == 0;
    }

    /// Whether each text is one document, with the added tokens that a choice finds.
    pub fn isWhole(self: *const Preprocessor, choice: ?[]const u8) bool {
        return self.is_plain and choice == null;
    }
};

/// A document or an added token of a text.
pub const Piece = union(enum) {
    document: Document,
    /// The span is that in the text.
    added: struct { id: u32, span: Document.Span },
};

/// A text, and the form of its documents.
pub const PiecesOptions = struct {
    text: []const u8,
    /// Offset of the text in the whole text.
    offset: usize = 0,
    /// One byte per added token, null if none is searched for.
    choice: ?[]const u8,
    /// Whether documents have an alignment with the text.
    has_source_map: bool = false,
    /// The ranges of the text in which added tokens are found, in order. Null means the whole text.
    /// Ranges require `has_source_map`.
    within: ?[]const normal.Place = null,
};

/// Iterates over the documents and added tokens of a text, in order.
pub const Pieces = struct {
    preprocessor: *const Preprocessor,
    /// Memory for documents that differ from the text. Each is valid until the next call.
    scratch: *Scratch,
    options: PiecesOptions,
    /// Search cost of added tokens in raw and in normalized text.
    efforts: [2]added.Effort,
    /// The text, split at added tokens in raw text.
    segments: Split,
    /// The current segment, if preprocessing may change it.
    segment: ?Segment = null,
    /// Offset of the first mark after the last segment, or the end of the text.
    mark_at: usize = 0,

    const Segment = struct {
        changed: ?normal.Normal,
        whole: Document,
        documents: Split,
        ranges: []const normal.Place = &.{},
    };

    /// `self` must not move afterwards.
    pub fn init(
        self: *Pieces,
        preprocessor: *const Preprocessor,
        scratch: *Scratch,
        options: PiecesOptions,
    ) void {
        const text = options.text;
        self.* = .{
            .preprocessor = preprocessor,
            .scratch = scratch,
            .options = options,
            .efforts = @splat(.{ .gpa = scratch.gpa }),
            .segments = .{ .len = text.len },
        };
        if (options.choice) |choice| {
            const raw, const effort = .{ &preprocessor.raw, &self.efforts[0] };
            self.segments.matches = if (options.within) |ranges|
                raw.within(text, ranges, choice, effort)
            else
                raw.in(text, choice, effort);
        }
        if (preprocessor.space_marker and preprocessor.is_light) self.findMark(0);
    }

    pub fn deinit(self: *Pieces) void {
        self.endSegment();
        for (&self.efforts) |*effort| effort.deinit();
    }

    pub fn next(self: *Pieces) Allocator.Error!?Piece {
        while (true) {
            if (self.segment) |*segment| {
                if (segment.documents.next()) |item| switch (item) {
                    .stretch => |span| return .{ .document = try self.documentIn(segment, span) },
                    .match => |found| return addedToken(
                        found.id,
                        segment.whole.spanOf(found.start, found.end),
                    ),
                };
                self.endSegment();
            }
            switch (self.segments.next() orelse return null) {
                .stretch => |span| {
                    const text, const offset = .{ self.options.text, self.options.offset };
                    const segment: Document = .of(text, span.start, span.end, offset);
                    if (self.isDocument(span)) return .{ .document = segment };
                    try self.beginSegment(segment);
                },
                .match => |found| {
                    const offset = self.options.offset;
                    const start, const end = .{ offset + found.start, offset + found.end };
                    return addedToken(found.id, .{ .start = start, .end = end });
                },
            }
        }
    }

    fn addedToken(id: u32, span: Document.Span) Piece {
        return .{ .added = .{ .id = id, .span = span } };
    }

    fn findMark(self: *Pieces, from: usize) void {
        const text = self.options.text;
        self.mark_at = Scratch.nextMark(text, from) orelse text.len;
    }

    /// Whether a segment is a document without changes.
    inline fn isDocument(self: *Pieces, span: Document.Span) bool {
        const preprocessor = self.preprocessor;
        if (preprocessor.is_plain) return true;
        if (!preprocessor.is_light) return false;
        if (preprocessor.prefix != .never and self.options.offset + span.start == 0) return false;
        if (!preprocessor.space_marker) return true;
        if (self.mark_at < span.start) self.findMark(span.start);
        return span.end <= self.mark_at;
    }

    /// Preprocesses a segment, and finds the added tokens in the result.
    noinline fn beginSegment(self: *Pieces, segment: Document) Allocator.Error!void {
        const preprocessor, const scratch = .{ self.preprocessor, self.scratch };
        const has_source_map = self.options.has_source_map;
        // The alignment is also needed to detect the start of the text.
        const may_begin = preprocessor.prefix == .missing_first and segment.origin == 0;
        const gpa = scratch.gpa;
        var changed =
            try preprocessor.steps.apply(gpa, segment.bytes, has_source_map or may_begin);
        errdefer if (changed) |*some| some.deinit(gpa);
        var whole = segment;
        if (changed) |some| {
            whole.bytes = some.bytes;
            whole.source_map = some.places;
        }
        if (!preprocessor.is_late and whole.bytes.len > 0) {
            const is_always = preprocessor.prefix == .always;
            const folds = preprocessor.space_marker;
            whole = try scratch.ready(whole, is_always, folds, has_source_map);
        }
        var documents: Split = .{ .len = whole.bytes.len };
        var ranges: []const normal.Place = &.{};
        if (self.options.choice) |choice| if (preprocessor.normal.ids.len > 0) {
            const tokens, const effort = .{ &preprocessor.normal, &self.efforts[1] };
            if (self.options.within) |given| {
                ranges = try self.rangesIn(&whole, given);
                documents.matches = tokens.within(whole.bytes, ranges, choice, effort);
            } else documents.matches = tokens.in(whole.bytes, choice, effort);
        };
        self.segment = .{
            .changed = changed,
            .whole = whole,
            .documents = documents,
            .ranges = ranges,
        };
    }

    /// Returns the ranges of a preprocessed segment that come from ranges of the text.
    fn rangesIn(
        self: *const Pieces,
        segment: *const Document,
        ranges: []const normal.Place,
    ) Allocator.Error![]const normal.Place {
        const gpa = self.scratch.gpa;
        var made: std.ArrayList(normal.Place) = .empty;
        errdefer made.deinit(gpa);
        var places = segment.cursor();
        var index: usize = 0;
        for (0..segment.bytes.len) |at| {
            const span = segment.spanFrom(&places, at, at + 1);
            const offset = self.options.offset;
            const start, const end = .{ span.start - offset, span.end - offset };
            const before = index;
            while (index < ranges.len and ranges[index].end <= start) index += 1;
            if (index == ranges.len) break;
            if (start < ranges[index].start or ranges[index].end < end) continue;
            const last = if (made.items.len > 0) &made.items[made.items.len - 1] else null;
            if (last != null and last.?.end == at and before == index) {
                last.?.end += 1;
            } else try made.append(gpa, .{ .start = @intCast(at), .end = @intCast(at + 1) });
        }
        return made.toOwnedSlice(gpa);
    }

    fn endSegment(self: *Pieces) void {
        const segment = if (self.segment) |*some| some else return;
        if (segment.changed) |*some| some.deinit(self.scratch.gpa);
        self.scratch.gpa.free(segment.ranges);
        self.segment = null;
    }

    /// Returns a range of the current segment as a document.
    fn documentIn(
        self: *Pieces,
        segment: *const Segment,
        span: Document.Span,
    ) Allocator.Error!Document {
        const preprocessor = self.preprocessor;
        const document = segment.whole.part(span.start, span.end);
        if (!preprocessor.is_late) return document;
        const lacks = preprocessor.lacksBlank(document);
        const folds = preprocessor.space_marker;
        return self.scratch.ready(document, lacks, folds, self.options.has_source_map);
    }
};

test {
    _ = @import("preprocess/document.zig");
}
