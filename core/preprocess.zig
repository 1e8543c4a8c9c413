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
const Error = @import("merge.zig").Error;
const unicode = @import("unicode.zig");
const Document = @import("preprocess/document.zig").Document;
const Maker = @import("preprocess/names.zig").Maker;

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

/// SentencePiece's character for a space.
pub const mark = "\u{2581}";

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
    /// become spaces later. Tokenizers whose normalizer replaces spaces by marks have no such token.
    fn isLate(self: *const PreprocessorOptions) bool {
        if (self.prefix != .never) return self.prefix != .always;
        if (!self.space_marker) return false;
        return for (self.flags) |flags| {
            if (flags.normalized and (flags.lstrip or flags.rstrip)) break true;
        } else false;
    }
};

pub const InitError = error{
    OutOfMemory,
    /// Normalization leaves an empty token text. `culprit` is the index of the token.
    EmptyName,
};

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
    ) InitError!Preprocessor {
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

    /// Encodes a text that begins at `offset` of the whole text.
    pub inline fn encode(
        self: *const Preprocessor,
        encoder: anytype,
        text: []const u8,
        offset: usize,
        allowed: ?[]const u8,
        sink: anytype,
    ) Error!void {
        var segments: SegmentEncoder = .{
            .preprocessor = self,
            .text = text,
            .offset = offset,
            .choice = self.choiceOf(allowed),
            .effort = .{ .gpa = encoder.gpa },
        };
        defer segments.effort.deinit();
        if (self.space_marker and self.is_light) segments.findMark(0);
        const choice = segments.choice orelse
            return segments.encode(encoder, 0, text.len, sink);
        var effort: added.Effort = .{ .gpa = encoder.gpa };
        defer effort.deinit();
        var start: usize = 0;
        var matches = self.raw.in(text, choice, &effort);
        while (matches.next()) |found| {
            try segments.encode(encoder, start, found.start, sink);
            if (found.start < found.end) {
                const span: Document.Span = .{ .start = found.start, .end = found.end };
                try sink.pushAdded(found.id, span);
            }
            start = found.end;
        }
        try segments.encode(encoder, start, text.len, sink);
    }

    /// Encodes a range of a text in which no added token matches the raw text.
    pub fn encodeSegment(
        self: *const Preprocessor,
        encoder: anytype,
        text: []const u8,
        start: usize,
        end: usize,
        choice: ?[]const u8,
        sink: anytype,
    ) Error!void {
        var segments: SegmentEncoder = .{
            .preprocessor = self,
            .text = text,
            .offset = 0,
            .choice = choice,
            .effort = .{ .gpa = encoder.gpa },
        };
        defer segments.effort.deinit();
        if (self.space_marker and self.is_light) segments.findMark(start);
        return segments.encode(encoder, start, end, sink);
    }
};

/// The state shared by all segments of a text.
const SegmentEncoder = struct {
    preprocessor: *const Preprocessor,
    text: []const u8,
    /// Offset of the text in the whole text.
    offset: usize,
    choice: ?[]const u8,
    /// Search cost of added tokens in normalized text.
    effort: added.Effort,
    /// Offset of the first mark after the last segment, or the end of the text.
    mark_at: usize = 0,

    fn findMark(self: *SegmentEncoder, from: usize) void {
        self.mark_at = Scratch.nextMark(self.text, from) orelse self.text.len;
    }

    /// Whether a segment is a document without changes.
    inline fn isDocument(self: *SegmentEncoder, start: usize, end: usize) bool {
        const preprocessor = self.preprocessor;
        if (preprocessor.is_plain) return true;
        if (!preprocessor.is_light) return false;
        if (preprocessor.prefix != .never and self.offset + start == 0) return false;
        if (!preprocessor.space_marker) return true;
        if (self.mark_at < start) self.findMark(start);
        return end <= self.mark_at;
    }

    inline fn encode(
        self: *SegmentEncoder,
        encoder: anytype,
        start: usize,
        end: usize,
        sink: anytype,
    ) Error!void {
        if (start >= end) return;
        const segment: Document = .of(self.text, start, end, self.offset);
        if (self.isDocument(start, end)) return encoder.encodeDocument(segment, sink);
        return self.normalizeSegment(encoder, segment, sink);
    }

    /// Encodes a segment that preprocessing may change.
    noinline fn normalizeSegment(
        self: *SegmentEncoder,
        encoder: anytype,
        segment: Document,
        sink: anytype,
    ) Error!void {
        const preprocessor = self.preprocessor;
        const keeps_places = @hasDecl(@typeInfo(@TypeOf(sink)).pointer.child, "keeps_places");
        // The alignment is also needed to detect the start of the text.
        const may_begin = preprocessor.prefix == .missing_first and segment.origin == 0;
        var whole = segment;
        var changed =
            try preprocessor.steps.apply(encoder.gpa, segment.bytes, keeps_places or may_begin);
        defer if (changed) |*some| some.deinit(encoder.gpa);
        if (changed) |some| {
            whole.bytes = some.bytes;
            whole.source_map = some.places;
        }
        if (whole.bytes.len == 0) return;
        const scratch = &encoder.scratch;
        const is_late = preprocessor.is_late;
        const is_always = preprocessor.prefix == .always;
        const folds = preprocessor.space_marker;
        if (!is_late) whole = try scratch.ready(whole, is_always, folds, keeps_places);
        const may_find = self.choice != null and preprocessor.normal.ids.len > 0;
        var start: usize = 0;
        var matches = preprocessor.normal.in(whole.bytes, self.choice orelse "", &self.effort);
        while (true) {
            const found = if (may_find) matches.next() else null;
            const end = if (found) |some| some.start else whole.bytes.len;
            if (start < end) {
                var document = whole.part(start, end);
                if (is_late) {
                    const lacks = preprocessor.lacksBlank(document);
                    document = try scratch.ready(document, lacks, folds, keeps_places);
                }
                try encoder.encodeDocument(document, sink);
            }
            const some = found orelse return;
            if (some.start < some.end) {
                try sink.pushAdded(some.id, whole.spanOf(some.start, some.end));
            }
            start = some.end;
        }
    }
};

/// Memory for a document that differs from the text.
pub const Scratch = struct {
    gpa: Allocator,
    bytes: std.ArrayList(u8) = .empty,
    places: normal.Runs = .{},

    pub fn deinit(self: *Scratch) void {
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// Prepends a space if `is_prefixed`, and replaces marks if `folds`. Valid until the next call.
    pub fn ready(
        self: *Scratch,
        document: Document,
        is_prefixed: bool,
        folds: bool,
        keeps_places: bool,
    ) Allocator.Error!Document {
        const first_mark = if (folds) nextMark(document.bytes, 0) else null;
        if (!is_prefixed and first_mark == null) return document;
        var made = document;
        self.bytes.clearRetainingCapacity();
        self.places.list.clearRetainingCapacity();
        try self.bytes.ensureTotalCapacity(self.gpa, document.bytes.len + 1);
        if (is_prefixed) {
            self.bytes.appendAssumeCapacity(' ');
            made.leading_space_end = document.firstEnd();
        }
        if (first_mark != null) {
            try self.fold(document, keeps_places);
            made.source_map = self.places.list.items;
            made.source_map_start = 0;
        } else self.bytes.appendSliceAssumeCapacity(document.bytes);
        made.bytes = self.bytes.items;
        return made;
    }

    fn fold(self: *Scratch, document: Document, keeps_places: bool) Allocator.Error!void {
        const bytes = document.bytes;
        const from = document.source_map_start;
        const blanks = self.bytes.items.len;
        var places = document.cursor();
        var start: usize = 0;
        while (true) {
            const found = nextMark(bytes, start);
            const end = found orelse bytes.len;
            if (keeps_places) {
                const at = self.bytes.items.len - blanks;
                try self.places.copy(self.gpa, at, &places, from + start, from + end);
            }
            self.bytes.appendSliceAssumeCapacity(bytes[start..end]);
            if (found == null) return;
            start = end + mark.len;
            if (keeps_places) {
                const place = places.placeOf(from + end, from + start);
                try self.places.put(self.gpa, self.bytes.items.len - blanks, 1, place);
            }
            self.bytes.appendAssumeCapacity(' ');
        }
    }

    fn nextMark(bytes: []const u8, from: usize) ?usize {
        var index = from;
        while (std.mem.indexOfScalarPos(u8, bytes, index, mark[0])) |at| : (index = at + 1) {
            if (std.mem.startsWith(u8, bytes[at..], mark)) return at;
        }
        return null;
    }
};

test {
    _ = @import("preprocess/document.zig");
}
