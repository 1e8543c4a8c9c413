//! Text → documents: added tokens are cut out, and what lies between them is made ready.
//!
//! Names that are looked for in the text as it is cut it into segments. A segment is normalised,
//! gets its blank in front, and "▁" becomes a blank where the two are the same; names that are
//! looked for in normal text cut it once more. What is left are the documents, which become
//! pretokens. Nothing is copied where nothing changes, and a tokenizer that has no more than names
//! in its front goes straight from segments to pretokens.
//!
//! **Invariant** segments depend on nothing around them but on whether the text begins there.

const std = @import("std");
const Allocator = std.mem.Allocator;
const added = @import("../added.zig");
const ids = @import("../ids.zig");
const normal = @import("../normal.zig");
const unicode = @import("../unicode.zig");
const Document = @import("document.zig").Document;
const Maker = @import("front_names.zig").Maker;

/// What is put in front of a segment.
pub const Prefix = enum {
    never,
    /// A blank, while normalising: so it is in front of names in normal text too.
    always,
    /// A blank in front of each document, unless it begins with one.
    missing,
    /// The same at the start of the text only.
    missing_first,
};

/// What SentencePiece writes for a blank.
pub const mark = "\u{2581}";

/// What a tokenizer does before it cuts text into pretokens, as it is given.
pub const Given = struct {
    /// Sorted, distinct and not empty; end to end, with their lengths.
    names: []const u8 = "",
    lengths: []const u32 = &.{},
    ids: []const u32 = &.{},
    flags: []const added.Flags = &.{},
    prefix: Prefix = .never,
    /// Whether `mark` is a blank.
    blank: bool = false,

    /// See `Front`. A name that takes the blanks beside it takes no marks, which become blanks in
    /// pretokens: where a normaliser makes marks of blanks there is no such name.
    fn isLate(self: *const Given) bool {
        if (self.prefix != .never) return self.prefix != .always;
        if (!self.blank) return false;
        return for (self.flags) |flags| {
            if (flags.normalized and (flags.lstrip or flags.rstrip)) break true;
        } else false;
    }
};

pub const Error = error{
    OutOfMemory,
    /// A name of which normalising leaves nothing; `culprit` says which.
    EmptyName,
};

pub const Front = struct {
    /// The names as they were given, which is the order of a choice.
    names: added.Names,
    ids: []const u32,
    /// Those that are looked for in the text, and those in normal text.
    raw: added.Added,
    normal: added.Added,
    steps: normal.Steps,
    prefix: Prefix,
    blank: bool,
    /// The choice where none is made: names that are no specials. Null when all are.
    default: ?[]const u8,
    /// Whether a segment is a document as it is; or one is that has no mark, and does not get a
    /// blank at the start of the text.
    is_plain: bool,
    is_light: bool,
    /// Whether a name is what it is whatever stands beside it.
    is_local: bool,
    /// Whether prefix and marks are looked at when names in normal text are cut out already.
    is_late: bool,

    /// Takes over `steps`, which are freed when the call fails.
    pub fn init(gpa: Allocator, given: Given, steps: normal.Steps, culprit: *usize) Error!Front {
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
            entry.name =
                try makers[1].normalise(gpa, entry.name, entry.flags, &parts, prefix, given.blank);
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
            .blank = given.blank,
            .default = if (has_default) default else blk: {
                gpa.free(default);
                break :blk null;
            },
            .is_plain = is_light and given.prefix == .never and !given.blank,
            .is_light = is_light,
            .is_local = is_local,
            .is_late = is_late,
        };
    }

    pub fn deinit(self: *Front, gpa: Allocator) void {
        self.names.deinit(gpa);
        gpa.free(self.ids);
        self.raw.deinit(gpa);
        self.normal.deinit(gpa);
        self.steps.deinit(gpa);
        if (self.default) |default| gpa.free(default);
        self.* = undefined;
    }

    /// The name of an id, if it has one.
    pub fn nameOf(self: *const Front, id: u32) ?[]const u8 {
        const index = std.mem.indexOfScalar(u32, self.ids, id) orelse return null;
        return self.names.name(index);
    }

    /// One byte for each name, or null: none is looked for.
    pub fn choiceOf(self: *const Front, allowed: ?[]const u8) ?[]const u8 {
        return allowed orelse self.default;
    }

    /// At most so many ids come from a text of a length, or null: nobody knows.
    pub fn idsMax(self: *const Front, text_len: usize) ?usize {
        if (!self.steps.isEmpty()) return null;
        // A segment and a name have a byte at least, and a segment gets one more.
        return if (self.prefix == .never) text_len else 2 * text_len;
    }

    /// Whether documents of a long text can be told without encoding it.
    pub fn isSimple(self: *const Front) bool {
        return self.is_local and self.steps.isEmpty() and self.normal.ids.len == 0;
    }

    /// Whether documents are what lies between the names that a choice finds, as it is in the text.
    pub fn isDirect(self: *const Front, choice: ?[]const u8) bool {
        if (!self.steps.isEmpty() or self.prefix != .never or self.blank) return false;
        return self.findsLocally(choice) and !self.findsInNormal(choice);
    }

    /// Whether a text can be made ready part by part, with the names that a choice finds.
    pub fn hasParts(self: *const Front, choice: ?[]const u8) bool {
        if (!self.steps.haveParts() or !self.findsLocally(choice)) return false;
        // A name in normal text begins a document, which gets a blank as it is.
        return !self.is_late or !self.findsInNormal(choice);
    }

    /// Whether each name that a choice looks for is found whatever stands beside it.
    fn findsLocally(self: *const Front, choice: ?[]const u8) bool {
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

    /// Whether a choice looks for names in normal text.
    pub fn findsInNormal(self: *const Front, choice: ?[]const u8) bool {
        const which = choice orelse return false;
        for (self.normal.names.places) |place| if (which[place] != 0) return true;
        return false;
    }

    /// Adds a part of a segment to `out`, made ready. `is_open`: other parts of it lie before.
    pub fn addPart(
        self: *const Front,
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
            try scratch.ready(whole, false, self.blank, false)
        else
            try self.documentOf(scratch, whole);
        try out.appendSlice(scratch.gpa, made.bytes);
    }

    /// The document of a segment without names in it and without steps.
    pub fn documentOf(
        self: *const Front,
        scratch: *Scratch,
        segment: Document,
    ) Allocator.Error!Document {
        if (self.is_plain) return segment;
        const wanted = switch (self.prefix) {
            .never => false,
            .always => segment.bytes.len > 0,
            .missing, .missing_first => self.lacksBlank(segment),
        };
        return scratch.ready(segment, wanted, self.blank, false);
    }

    /// Whether a document gets its blank late.
    fn lacksBlank(self: *const Front, document: Document) bool {
        const bytes = document.bytes;
        if (self.prefix == .never or bytes.len == 0 or bytes[0] == ' ') return false;
        if (self.blank and std.mem.startsWith(u8, bytes, mark)) return false;
        return self.prefix == .missing or document.spanOf(0, 1).start == 0;
    }

    /// Encodes a text, which begins at `offset` in the whole one.
    pub inline fn encode(
        self: *const Front,
        encoder: *ids.Encoder,
        text: []const u8,
        offset: usize,
        allowed: ?[]const u8,
        sink: anytype,
    ) ids.Error!void {
        var segments: Segments = .{
            .front = self,
            .text = text,
            .offset = offset,
            .choice = self.choiceOf(allowed),
            .effort = .{ .gpa = encoder.gpa },
        };
        defer segments.effort.deinit();
        if (self.blank and self.is_light) segments.findMark(0);
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

    /// Encodes a part of a text in which no name is found as it is.
    pub fn encodeSegment(
        self: *const Front,
        encoder: *ids.Encoder,
        text: []const u8,
        start: usize,
        end: usize,
        choice: ?[]const u8,
        sink: anytype,
    ) ids.Error!void {
        var segments: Segments = .{
            .front = self,
            .text = text,
            .offset = 0,
            .choice = choice,
            .effort = .{ .gpa = encoder.gpa },
        };
        defer segments.effort.deinit();
        if (self.blank and self.is_light) segments.findMark(start);
        return segments.encode(encoder, start, end, sink);
    }
};

/// What is the same for all segments of a text.
const Segments = struct {
    front: *const Front,
    text: []const u8,
    /// Where the text begins in the whole one.
    offset: usize,
    choice: ?[]const u8,
    /// What the names in normal text cost.
    effort: added.Effort,
    /// A mark, or the end of the text: there is none from the last segment up to here.
    mark_at: usize = 0,

    fn findMark(self: *Segments, from: usize) void {
        self.mark_at = Scratch.nextMark(self.text, from) orelse self.text.len;
    }

    /// Whether a segment is a document as it is.
    inline fn isDocument(self: *Segments, start: usize, end: usize) bool {
        const front = self.front;
        if (front.is_plain) return true;
        if (!front.is_light) return false;
        if (front.prefix != .never and self.offset + start == 0) return false;
        if (!front.blank) return true;
        if (self.mark_at < start) self.findMark(start);
        return end <= self.mark_at;
    }

    inline fn encode(
        self: *Segments,
        encoder: *ids.Encoder,
        start: usize,
        end: usize,
        sink: anytype,
    ) ids.Error!void {
        if (start >= end) return;
        const segment: Document = .of(self.text, start, end, self.offset);
        if (self.isDocument(start, end)) return encoder.encodeDocument(segment, sink);
        return self.encodeAnew(encoder, segment, sink);
    }

    /// Encodes a segment that may have to change.
    noinline fn encodeAnew(
        self: *Segments,
        encoder: *ids.Encoder,
        segment: Document,
        sink: anytype,
    ) ids.Error!void {
        const front = self.front;
        const keeps_places = @TypeOf(sink) == *ids.Spans;
        // Whether the text begins here is a question of places too.
        const may_begin = front.prefix == .missing_first and segment.origin == 0;
        var whole = segment;
        var changed =
            try front.steps.apply(encoder.gpa, segment.bytes, keeps_places or may_begin);
        defer if (changed) |*some| some.deinit(encoder.gpa);
        if (changed) |some| {
            whole.bytes = some.bytes;
            whole.places = some.places;
        }
        if (whole.bytes.len == 0) return;
        const scratch = &encoder.scratch;
        const is_late = front.is_late;
        const is_always = front.prefix == .always;
        if (!is_late) whole = try scratch.ready(whole, is_always, front.blank, keeps_places);
        const may_find = self.choice != null and front.normal.ids.len > 0;
        var start: usize = 0;
        var matches = front.normal.in(whole.bytes, self.choice orelse "", &self.effort);
        while (true) {
            const found = if (may_find) matches.next() else null;
            const end = if (found) |some| some.start else whole.bytes.len;
            if (start < end) {
                var document = whole.part(start, end);
                if (is_late) {
                    const lacks = front.lacksBlank(document);
                    document = try scratch.ready(document, lacks, front.blank, keeps_places);
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

/// Memory for a document that is not as it is in the text.
pub const Scratch = struct {
    gpa: Allocator,
    bytes: std.ArrayList(u8) = .empty,
    places: normal.Runs = .{},

    pub fn deinit(self: *Scratch) void {
        self.bytes.deinit(self.gpa);
        self.places.deinit(self.gpa);
    }

    /// A document with a blank in front, and blanks for marks; valid until the next call.
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
            made.first_end = document.firstEnd();
        }
        if (first_mark != null) {
            try self.fold(document, keeps_places);
            made.places = self.places.list.items;
            made.places_from = 0;
        } else self.bytes.appendSliceAssumeCapacity(document.bytes);
        made.bytes = self.bytes.items;
        return made;
    }

    fn fold(self: *Scratch, document: Document, keeps_places: bool) Allocator.Error!void {
        const bytes = document.bytes;
        const from = document.places_from;
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

const testing = std.testing;

/// A tokenizer of single bytes with a few names, where "▁" is a blank.
pub fn testTokenizer(prefix: Prefix) !ids.Tokenizer {
    var bytes: [256]u8 = undefined;
    var numbers: [256]u32 = undefined;
    for (&bytes, &numbers, 0..) |*byte, *id, index| {
        byte.* = @intCast(index);
        id.* = @intCast(index);
    }
    var steps: normal.Steps = try .init(testing.allocator, "");
    errdefer steps.deinit(testing.allocator);
    const lengths: [256]u32 = @splat(1);
    var culprit: u32 = 0;
    const Vocabulary = @import("../vocabulary.zig").Vocabulary;
    const vocabulary: Vocabulary =
        try .fromTokens(testing.allocator, &bytes, &lengths, &numbers, 1, &culprit);
    const given: Given = .{
        .names = "<a>a" ++ mark ++ "bbbc d",
        .lengths = &.{ 3, 5, 2, 3 },
        .ids = &.{ 300, 301, 302, 303 },
        .flags = &.{
            .{},
            .{ .normalized = true },
            .{ .normalized = true },
            .{ .normalized = true },
        },
        .prefix = prefix,
        .blank = true,
    };
    var index: usize = 0;
    const front: Front = try .init(testing.allocator, given, steps, &index);
    return .init(testing.allocator, vocabulary, .r50k, front, 1);
}

test "front: blanks and marks are what Hugging Face makes of them" {
    // What Metaspace and the normalisers Prepend and Replace gave; a blank is in place of "▁".
    const Id = struct { u32, u32, u32 };
    const cases = [_]struct { Prefix, []const u8, []const Id }{
        .{ .missing, "bb", &.{.{ 302, 0, 2 }} },
        .{ .missing, "ebb e", &.{
            .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 302, 1, 3 }, .{ ' ', 3, 4 }, .{ 'e', 4, 5 },
        } },
        .{ .missing, " e", &.{ .{ ' ', 0, 1 }, .{ 'e', 1, 2 } } },
        .{ .missing, "<a>e", &.{ .{ 300, 0, 3 }, .{ ' ', 3, 4 }, .{ 'e', 3, 4 } } },
        .{ .missing, mark ++ "e", &.{ .{ ' ', 0, 3 }, .{ 'e', 3, 4 } } },
        .{ .missing, "c d", &.{.{ 303, 0, 3 }} },
        .{ .missing, "a b", &.{
            .{ ' ', 0, 1 }, .{ 'a', 0, 1 }, .{ ' ', 1, 2 }, .{ 'b', 2, 3 },
        } },
        .{ .missing_first, "e<a>e", &.{
            .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 300, 1, 4 }, .{ 'e', 4, 5 },
        } },
        .{ .missing_first, "<a>e", &.{ .{ 300, 0, 3 }, .{ 'e', 3, 4 } } },
        .{ .never, "e" ++ mark ++ "<a>e", &.{
            .{ 'e', 0, 1 }, .{ ' ', 1, 4 }, .{ 300, 4, 7 }, .{ 'e', 7, 8 },
        } },
        .{ .always, "a b", &.{.{ 301, 0, 3 }} },
        .{ .always, "e a" ++ mark ++ "b", &.{ .{ ' ', 0, 1 }, .{ 'e', 0, 1 }, .{ 301, 1, 7 } } },
        .{ .always, " e", &.{ .{ ' ', 0, 1 }, .{ ' ', 0, 1 }, .{ 'e', 1, 2 } } },
        .{ .always, "", &.{} },
        .{ .always, "\u{e9}", &.{ .{ ' ', 0, 2 }, .{ 0xC3, 0, 1 }, .{ 0xA9, 1, 2 } } },
    };
    for (cases) |case| {
        var tokenizer = try testTokenizer(case[0]);
        defer tokenizer.deinit(testing.allocator);
        var encoder: ids.Encoder = .init(testing.allocator, &tokenizer);
        defer encoder.deinit();
        var spans: ids.Spans = .init(testing.allocator);
        defer spans.deinit();
        try encoder.encode(case[1], null, &spans);
        var list: ids.List = .{ .gpa = testing.allocator };
        defer list.ids.deinit(testing.allocator);
        try encoder.encode(case[1], null, &list);
        try testing.expectEqualSlices(u32, spans.list.ids.items, list.ids.items);
        try testing.expectEqual(case[2].len, spans.spans.items.len);
        for (case[2], spans.list.ids.items, spans.spans.items) |expected, id, span| {
            try testing.expectEqual(expected, .{ id, span.start, span.end });
        }
    }
}
