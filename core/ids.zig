//! Text → ids: added tokens are cut out, the rest becomes pretokens, and each pretoken becomes ids.
//!
//! The tokenizer is immutable and shared by all threads; an `Encoder` is what one thread needs
//! beside it. Where the ids go is up to the sink: a list, a number, or ids with their places.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pretokens = @import("pretokens.zig");
const pool = @import("pool.zig");
const unicode = @import("unicode.zig");
const Vocabulary = @import("vocabulary.zig").Vocabulary;
const merge_short = @import("ids/merge_short.zig");
const merge_long = @import("ids/merge_long.zig");
const merge_random = @import("ids/merge_random.zig");
const expand = @import("ids/expand.zig");
const settle = @import("ids/settle.zig");
const units = @import("ids/units.zig");
const words = @import("ids/words.zig");
const Characters = @import("ids/characters.zig").Characters;
const Document = @import("ids/document.zig").Document;
const Making = @import("ids/prepared.zig").Making;
const Cache = @import("ids/cache.zig").Cache;
const Window = @import("ids/window.zig").Window;
pub const caches = @import("ids/caches.zig");
pub const pages = @import("pages.zig");

pub const batch = @import("ids/batch.zig");
pub const front = @import("ids/front.zig");
pub const Session = @import("ids/sessions.zig").Session;
pub const spans = @import("ids/spans.zig");
pub const Spans = spans.Spans;
pub const told = @import("ids/told.zig");
pub const truncate = @import("ids/truncate.zig");

pub const Poll = pool.Poll;

pub const Error = error{
    OutOfMemory,
    /// The text holds a byte that no token covers; `Encoder.missing_byte` says which.
    MissingByte,
    /// `Encoder.poll` said so.
    Interrupted,
};

/// So much text with characters of large scripts is encoded before what cuts it is made, which
/// takes as long as merging some 100 KB: a few of them in a text in English are not worth it.
pub var wide_bytes_min: std.atomic.Value(usize) = .init(32 << 10);

pub const Tokenizer = struct {
    vocabulary: Vocabulary,
    scheme: pretokens.Scheme,
    front: front.Front,
    /// Secret and different at each load: no text can be made to fit the tables badly.
    seed: u64,
    /// Whether each byte is a token: otherwise a character that has no ids alone may have some
    /// among others, and nothing is cut.
    has_all_bytes: bool,
    /// What is remembered; the one part that changes, and no result depends on it.
    memory: *Memory,

    const Memory = struct {
        caches: caches.Caches,
        characters: std.atomic.Value(?*Characters) = .init(null),
        /// Bytes of text with characters of large scripts that were encoded without `characters`.
        wide_bytes: std.atomic.Value(usize) = .init(0),
    };

    /// Takes over its parts, which are freed when there is no memory for the rest.
    pub fn init(
        gpa: Allocator,
        vocabulary: Vocabulary,
        scheme: pretokens.Scheme,
        given: front.Front,
        seed: u64,
    ) Allocator.Error!Tokenizer {
        var self: Tokenizer = .{
            .vocabulary = vocabulary,
            .scheme = scheme,
            .front = given,
            .seed = seed,
            // Units are of characters that are not left out.
            .has_all_bytes = vocabulary.hasAllBytes() and vocabulary.leftover != .settle,
            .memory = undefined,
        };
        errdefer self.deinitParts(gpa);
        self.cutSafely();
        self.memory = try gpa.create(Memory);
        self.memory.* = .{ .caches = .{ .seed = seed } };
        self.memory.caches.register();
        return self;
    }

    /// Finds where a text that the tokenizer does not cut may be cut all the same.
    fn cutSafely(self: *Tokenizer) void {
        const vocabulary = &self.vocabulary;
        // A token that is only a whole pretoken must be none in a part of the text; and what is
        // left out lets its neighbours meet.
        if (self.scheme.safely() == null or !vocabulary.is_closed) return;
        if (vocabulary.missing == .drop) return;
        // Merges that are dropped may come back as long as there are others in the pretoken.
        if (vocabulary.every != null) return;
        var safe: pretokens.Safe = .fromTokens(Found{ .vocabulary = vocabulary });
        if (vocabulary.missing == .unk and vocabulary.fuse_unk) {
            // What is unknown is one with what is unknown beside it; a blank parts them.
            if (vocabulary.byte_ids[' '] >= vocabulary.ids_end) return;
            safe = safe.atBlanksOnly();
        }
        switch (self.scheme) {
            .safe => |*own| own.* = safe,
            .metaspace => |*own| own.* = safe.atEachBlank(),
            else => unreachable,
        }
    }

    /// The tokens of more than a byte that are found in a text.
    const Found = struct {
        vocabulary: *const Vocabulary,
        id: u32 = 0,

        pub fn next(self: *Found) ?[]const u8 {
            while (self.id < self.vocabulary.ids_end) {
                defer self.id += 1;
                const token = self.vocabulary.tokenBytes(self.id);
                if (token.len < 2) continue;
                if (!self.vocabulary.has_hidden) return token;
                if (self.vocabulary.find(token) == self.id) return token;
            }
            return null;
        }
    };

    pub fn deinit(self: *Tokenizer, gpa: Allocator) void {
        self.memory.caches.deinit();
        if (self.memory.characters.raw) |characters| characters.destroy(gpa);
        gpa.destroy(self.memory);
        self.deinitParts(gpa);
    }

    /// Whether the same text has other ids each time: none are remembered then, and no text is cut.
    pub fn isRandom(self: *const Tokenizer) bool {
        return self.vocabulary.every != null;
    }

    pub fn madeCharacters(self: *const Tokenizer) ?*const Characters {
        return self.memory.characters.load(.acquire);
    }

    /// What cuts a pretoken with characters of large scripts, `wide_bytes` long, into units. It is
    /// made by the first thread that needs it; null while there is too little of such text for
    /// that, or no memory.
    pub fn charactersFor(
        self: *const Tokenizer,
        gpa: Allocator,
        wide_bytes: usize,
    ) ?*const Characters {
        if (self.madeCharacters()) |made| return made;
        if (!self.has_all_bytes or self.isRandom()) return null;
        const before = self.memory.wide_bytes.fetchAdd(wide_bytes, .monotonic);
        if (before + wide_bytes < wide_bytes_min.load(.monotonic)) return null;
        const place = &self.memory.characters;
        const made = Characters.create(gpa, self) catch return null;
        const other = place.cmpxchgStrong(null, made, .acq_rel, .acquire) orelse return made;
        made.destroy(gpa);
        return other;
    }

    fn deinitParts(self: *Tokenizer, gpa: Allocator) void {
        self.vocabulary.deinit(gpa);
        self.scheme.deinit(gpa);
        self.front.deinit(gpa);
    }

    /// The bytes an id stands for, a special's name included.
    pub fn idBytes(self: *const Tokenizer, id: u32) ?[]const u8 {
        if (self.vocabulary.rankOf(id)) |rank| {
            const token = self.vocabulary.tokenBytes(rank);
            if (token.len > 0 or self.vocabulary.empty_id == rank) return token;
        }
        // Where ids are not ranks, specials are tokens.
        return if (self.vocabulary.ranks == null) self.front.nameOf(id) else null;
    }
};

pub const Encoder = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    cache: ?Cache = null,
    short_ids: [merge_short.len_max]u32 = undefined,
    long_ids: std.ArrayList(u32) = .empty,
    /// Where ids go that are only counted, and remembered.
    counted_ids: std.ArrayList(u32) = .empty,
    /// How many pretokens of the last batch were cut into units.
    wide_pretokens: usize = 0,
    /// Made when merges are first dropped at random.
    random: ?merge_random.Merger = null,
    missing_byte: u8 = 0,
    poll: ?Poll = null,
    bytes_since_poll: usize = 0,
    /// Where documents are made ready that are not in the text.
    scratch: front.Scratch,

    pub fn init(gpa: Allocator, tokenizer: *const Tokenizer) Encoder {
        const cache = if (tokenizer.isRandom()) null else tokenizer.memory.caches.take();
        return .{
            .gpa = gpa,
            .tokenizer = tokenizer,
            .cache = cache,
            .scratch = .{ .gpa = gpa },
        };
    }

    pub fn deinit(self: *Encoder) void {
        if (self.cache) |*cache| self.tokenizer.memory.caches.put(cache);
        if (self.random) |*random| random.deinit(self.gpa);
        self.long_ids.deinit(self.gpa);
        self.counted_ids.deinit(self.gpa);
        self.scratch.deinit();
    }

    /// Memory for `count` ids, valid until the next call.
    pub fn roomFor(self: *Encoder, count: usize) Allocator.Error![*]u32 {
        try self.counted_ids.ensureTotalCapacity(self.gpa, count);
        return self.counted_ids.items.ptr;
    }

    /// Encodes any bytes. `allowed` has a byte for each name that says whether it is found here
    /// (added.Choice); null: those that are no specials.
    pub fn encode(
        self: *Encoder,
        text: []const u8,
        allowed: ?[]const u8,
        sink: anytype,
    ) Error!void {
        return self.tokenizer.front.encode(self, text, 0, allowed, sink);
    }

    /// Encodes a document batch by batch.
    pub fn encodeDocument(self: *Encoder, document: Document, sink: anytype) Error!void {
        if (@TypeOf(sink) == *Spans) return sink.encode(self, document);
        if (@TypeOf(sink) == *Making) return sink.pushDocument(document.bytes);
        var batches: pretokens.Sweep = undefined;
        batches.init(self.gpa, &self.tokenizer.scheme, document.bytes);
        defer batches.deinit();
        while (try batches.next()) |part| try self.encodeBatch(part, sink);
    }

    /// Encodes a batch of pretokens; `sink` is a `List` or a `Count`.
    pub fn encodeBatch(self: *Encoder, part: pretokens.Batch, sink: anytype) Error!void {
        try self.pollAfter(part.len);
        if (part.ends.len == 0) return self.encodePretoken(part.bytes[0..part.len], sink);
        const cache = if (self.cache) |*some| some else {
            var start: u32 = 0;
            for (part.ends) |end| {
                try self.encodePretoken(part.bytes[start..end], sink);
                start = end;
            }
            return;
        };
        if (@TypeOf(sink) == *List) {
            try sink.ids.ensureUnusedCapacity(sink.gpa, words.roomFor(part));
            const out = sink.ids.items.ptr + sink.ids.items.len;
            sink.ids.items.len += try words.encode(self, cache, part, out);
        } else {
            sink.count += try words.encode(self, cache, part, {});
        }
    }

    /// Whether no token covers the seam at `index`, which lies inside a text.
    pub fn isFreeSeam(self: *Encoder, text: []const u8, index: usize) Error!bool {
        if (text[index] < 0xE0 or index == 0) return false;
        // Asked for only in long texts: it is worth making.
        const characters = self.tokenizer.charactersFor(self.gpa, 1 << 20) orelse return false;
        const before = unicode.decodeBefore(text, index);
        const left = try characters.charAt(self, text[index - before.len .. index]);
        const right = try characters.charAt(self, text[index..]);
        return characters.seams.joins(left.code_point, right.code_point) == 0 and
            characters.mayCut(left, right);
    }

    pub inline fn pollAfter(self: *Encoder, bytes: usize) Error!void {
        self.bytes_since_poll += bytes;
        if (self.bytes_since_poll < Poll.bytes_between) return;
        self.bytes_since_poll = 0;
        const poll = self.poll orelse return;
        if (poll.function(poll.context)) return error.Interrupted;
    }

    pub fn encodePretoken(self: *Encoder, piece: []const u8, sink: anytype) Error!void {
        const vocabulary = &self.tokenizer.vocabulary;
        const is_long = piece.len > @max(merge_short.len_max, vocabulary.token_len_max);
        const is_whole = !is_long or vocabulary.leftover == .settle or vocabulary.isTied(piece);
        if (is_whole or self.tokenizer.isRandom()) return sink.push(try self.idsOf(piece));
        var rest = piece;
        if (self.cache != null and piece[0] | piece[1] >= 0xE0) {
            if (self.tokenizer.charactersFor(self.gpa, piece.len)) |characters| {
                rest = piece[try units.encodeLong(self, &self.cache.?, characters, piece, sink)..];
            }
        }
        // Neither goes through a second list, which for a long text is a second text.
        if (@TypeOf(sink) == *Count) {
            const kept = merge_long.kept_max;
            const counted =
                try merge_long.count(self.gpa, vocabulary, rest, kept, &self.long_ids);
            if (counted.stand_in) |id| try self.refuseStandIns(&.{id});
            sink.count += counted.ids;
        } else {
            const before = sink.ids.items.len;
            try merge_long.merge(sink.gpa, vocabulary, rest, rest.len, &sink.ids);
            try self.refuseStandIns(sink.ids.items[before..]);
            try expand.inList(sink.gpa, vocabulary, &sink.ids, before);
        }
    }

    /// The ids of a pretoken, valid until the next call. One that is a token is that token, even
    /// where merging would not reach it (tiktoken's rule); otherwise its bytes are merged. Where
    /// merges are dropped it is as any other.
    pub fn idsOf(self: *Encoder, piece: []const u8) Error![]const u32 {
        const vocabulary = &self.tokenizer.vocabulary;
        if (self.tokenizer.isRandom()) return self.mergedIds(piece);
        if (vocabulary.find(piece)) |id| {
            self.short_ids[0] = id;
            return self.short_ids[0..1];
        }
        return self.mergedIds(piece);
    }

    /// The ids that merging gives, valid until the next call.
    pub fn mergedIds(self: *Encoder, piece: []const u8) Error![]const u32 {
        const found = try self.mergedParts(piece);
        if (self.tokenizer.vocabulary.leftover != .refuse) {
            return settle.settle(self, piece, found);
        }
        try self.refuseStandIns(found);
        return found;
    }

    /// What merging gives, with stand-ins and parts of characters, valid until the next call.
    pub fn mergedParts(self: *Encoder, piece: []const u8) Error![]u32 {
        const vocabulary = &self.tokenizer.vocabulary;
        if (self.tokenizer.isRandom()) {
            if (self.random == null) self.random = .init();
            try self.random.?.merge(self, piece, &self.long_ids);
            return self.long_ids.items;
        }
        if (vocabulary.isTied(piece)) {
            var window: Window = .empty;
            defer window.deinit(self.gpa);
            const found = try window.mergeTied(self.gpa, vocabulary, piece);
            self.long_ids.clearRetainingCapacity();
            try self.long_ids.appendSlice(self.gpa, found);
            return self.long_ids.items;
        }
        if (piece.len <= merge_short.len_max) {
            const count = merge_short.merge(vocabulary, piece, &self.short_ids);
            return self.short_ids[0..count];
        }
        self.long_ids.clearRetainingCapacity();
        try merge_long.merge(self.gpa, vocabulary, piece, piece.len, &self.long_ids);
        return self.long_ids.items;
    }

    pub fn refuseStandIns(self: *Encoder, ids: []const u32) Error!void {
        const ids_end = self.tokenizer.vocabulary.ids_end;
        for (ids) |id| {
            if (id < ids_end) continue;
            self.missing_byte = @intCast(id - ids_end);
            return error.MissingByte;
        }
    }
};

/// Keeps the ids.
pub const List = struct {
    gpa: Allocator,
    ids: std.ArrayList(u32) = .empty,

    /// Ids beyond one for each byte for which a list needs room that must not grow.
    pub const room_extra = words.room_extra;

    pub fn total(self: *const List) usize {
        return self.ids.items.len;
    }
    pub fn reset(self: *List) void {
        self.ids.clearRetainingCapacity();
    }
    pub inline fn push(self: *List, ids: []const u32) Allocator.Error!void {
        try self.ids.ensureUnusedCapacity(self.gpa, ids.len);
        self.ids.appendSliceAssumeCapacity(ids);
    }
    pub fn pushAdded(self: *List, id: u32, _: Document.Span) Allocator.Error!void {
        return self.push(&.{id});
    }
};

/// Keeps only their number.
pub const Count = struct {
    count: usize = 0,

    pub fn total(self: *const Count) usize {
        return self.count;
    }
    pub fn reset(self: *Count) void {
        self.count = 0;
    }
    pub inline fn push(self: *Count, ids: []const u32) Allocator.Error!void {
        self.count += ids.len;
    }
    pub fn pushAdded(self: *Count, _: u32, _: Document.Span) Allocator.Error!void {
        self.count += 1;
    }
};

test {
    _ = caches;
    _ = Session;
    _ = @import("ids/document.zig");
    _ = front;
    _ = spans;
    _ = @import("ids/testing.zig");
    _ = @import("ids/reference_merges.zig");
}
