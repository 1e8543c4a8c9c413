//! Text → ids: added tokens are split off, the rest becomes pretokens, and each pretoken becomes
//! ids.
//!
//! The tokenizer is immutable and shared by all threads. Each thread has its own `Encoder`, which
//! contains the scratch memory. The sink decides the form of the result: a list of ids, their
//! number, or ids with offsets.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const pretokens = @import("pretokens.zig");
const unicode = @import("unicode.zig");
const Vocabulary = @import("vocabulary.zig").Vocabulary;
const merge = @import("merge.zig");
const merge_short = @import("merge/short.zig");
const merge_long = @import("merge/long.zig");
const expand = @import("merge/byte_fallback.zig");
const units = @import("units.zig");
const words = @import("ids/words.zig");
const Characters = @import("units/characters.zig").Characters;
const Document = @import("ids/document.zig").Document;
const Cache = @import("cache.zig").Cache;
const Merger = merge.Merger;
pub const caches = @import("cache/registry.zig");

pub const batch = @import("ids/batch.zig");
pub const front = @import("ids/front.zig");
pub const Session = @import("ids/sessions.zig").Session;
pub const spans = @import("ids/spans.zig");
pub const Spans = spans.Spans;
pub const told = @import("ids/told.zig");
pub const truncate = @import("ids/truncate.zig");

pub const Poll = merge.Poll;

pub const Error = merge.Error;

/// Bytes of text in large scripts that are encoded before `Characters` is built. Building it takes
/// as long as merging about 100 KB, so a few such characters in an English text do not justify it.
pub var wide_bytes_min: std.atomic.Value(usize) = .init(32 << 10);

pub const Tokenizer = struct {
    vocabulary: Vocabulary,
    scheme: pretokens.Scheme,
    front: front.Front,
    /// Random and secret, new at each load. No input can be chosen to cause hash collisions.
    seed: u64,
    /// Whether each byte is a token. Otherwise a character without ids of its own may get ids in
    /// context, and pretokens are not split.
    has_all_bytes: bool,
    /// The caches. This is the only mutable state, and no result depends on it.
    memory: *Memory,

    const Memory = struct {
        caches: caches.Caches,
        characters: std.atomic.Value(?*Characters) = .init(null),
        /// Bytes of text with characters of large scripts that were encoded without `characters`.
        wide_bytes: std.atomic.Value(usize) = .init(0),
    };

    /// Takes ownership of its arguments. They are freed if an allocation fails.
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
            // Fragments require that no character is dropped or replaced.
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

    /// Finds safe split points for a tokenizer that has no pre-tokenizer.
    fn cutSafely(self: *Tokenizer) void {
        const vocabulary = &self.vocabulary;
        // Splitting requires a closed vocabulary: a token that is matched only as a whole pretoken
        // could otherwise appear in a chunk of the text. Dropped characters make their neighbours
        // adjacent, which rules out splitting as well.
        if (self.scheme.safely() == null or !vocabulary.is_closed) return;
        if (vocabulary.missing == .drop) return;
        // With BPE dropout, a skipped merge can be retried only while the pretoken has other
        // merges.
        if (vocabulary.isRandom()) return;
        var safe: pretokens.Safe = .fromTokens(Found{ .vocabulary = vocabulary });
        if (vocabulary.missing == .unk and vocabulary.fuse_unk) {
            // Adjacent unknown characters become one unknown token. A space separates them.
            if (vocabulary.byte_ids[' '] >= vocabulary.ids_end) return;
            safe = safe.atBlanksOnly();
        }
        switch (self.scheme) {
            .safe => |*own| own.* = safe,
            .metaspace => |*own| own.* = safe.atEachBlank(),
            else => unreachable,
        }
    }

    /// Iterates over the tokens of at least two bytes that encoding can produce.
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

    /// Whether the same text gets different ids each time (BPE dropout). Then results are not
    /// cached and no text is split.
    pub fn isRandom(self: *const Tokenizer) bool {
        return self.vocabulary.isRandom();
    }

    pub fn madeCharacters(self: *const Tokenizer) ?*const Characters {
        return self.memory.characters.load(.acquire);
    }

    /// Returns the table that splits pretokens in large scripts into fragments. The first thread
    /// that needs it builds it. Returns null while less than `wide_bytes_min` bytes of such text
    /// have been encoded (`wide_bytes` is the length of this pretoken), or if memory runs out.
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
        const made = Characters.create(gpa, &self.vocabulary, self.seed) catch return null;
        const other = place.cmpxchgStrong(null, made, .acq_rel, .acquire) orelse return made;
        made.destroy(gpa);
        return other;
    }

    fn deinitParts(self: *Tokenizer, gpa: Allocator) void {
        self.vocabulary.deinit(gpa);
        self.scheme.deinit(gpa);
        self.front.deinit(gpa);
    }

    /// Returns the bytes of an id. The bytes of a special token are its text.
    pub fn idBytes(self: *const Tokenizer, id: u32) ?[]const u8 {
        if (self.vocabulary.rankOf(id)) |rank| {
            const token = self.vocabulary.tokenBytes(rank);
            if (token.len > 0 or self.vocabulary.empty_id == rank) return token;
        }
        // If ids differ from ranks, special tokens are part of the vocabulary.
        return if (self.vocabulary.ranks == null) self.front.nameOf(id) else null;
    }
};

/// Length of the slices of a long pretoken, and distance searched for a split point at their end.
const slice_len = 1 << 15;
const seam_reach = 256;

pub const Encoder = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    cache: ?Cache = null,
    merger: Merger,
    /// Number of pretokens of the last batch that were split into fragments.
    wide_pretokens: usize = 0,
    /// Memory for documents whose bytes differ from the text.
    scratch: front.Scratch,

    pub fn init(gpa: Allocator, tokenizer: *const Tokenizer) Encoder {
        const cache = if (tokenizer.isRandom()) null else tokenizer.memory.caches.take();
        return .{
            .gpa = gpa,
            .tokenizer = tokenizer,
            .cache = cache,
            .merger = .init(gpa, &tokenizer.vocabulary),
            .scratch = .{ .gpa = gpa },
        };
    }

    pub fn deinit(self: *Encoder) void {
        if (self.cache) |*cache| self.tokenizer.memory.caches.put(cache);
        self.merger.deinit();
        self.scratch.deinit();
    }

    /// Encodes any bytes. `allowed` has one byte per added token, an `added.Choice`. Null means all
    /// added tokens that are not special.
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
        const Sink = @typeInfo(@TypeOf(sink)).pointer.child;
        if (@hasDecl(Sink, "encodeDocument")) return sink.encodeDocument(self, document);
        var batches: pretokens.Sweep = undefined;
        batches.init(self.gpa, &self.tokenizer.scheme, document.bytes);
        defer batches.deinit();
        while (try batches.next()) |part| try self.encodeBatch(part, sink);
    }

    /// Encodes a batch of pretokens. `sink` is a `List` or a `Count`.
    pub fn encodeBatch(self: *Encoder, part: pretokens.Batch, sink: anytype) Error!void {
        try self.merger.pollAfter(part.len);
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

    /// Encodes a long pretoken slice by slice, between safe split points, and returns the number of
    /// bytes encoded. The last bytes remain, as do stretches without split points. `sink` is a
    /// `List` or a `Count`.
    fn encodeLong(
        self: *Encoder,
        cache: *Cache,
        chars: *const Characters,
        piece: []const u8,
        sink: anytype,
    ) Error!usize {
        var start: usize = 0;
        while (piece.len - start > 2 * seam_reach) {
            // Leaves readable text after the slice.
            const wanted = @min(start + slice_len, piece.len - seam_reach / 2);
            var end = wanted;
            while (!try self.isFreeSeam(piece, end)) : (end -= 1) {
                if (end <= start + 1 or wanted - end >= seam_reach) return start;
            }
            const slice = piece[start..end];
            try self.merger.pollAfter(slice.len);
            if (@TypeOf(sink) == *List) {
                try sink.ids.ensureUnusedCapacity(sink.gpa, slice.len + List.room_extra);
                const out = sink.ids.items.ptr + sink.ids.items.len;
                const merger = &self.merger;
                sink.ids.items.len += try units.encode(merger, cache, chars, slice, false, out);
            } else sink.count += try units.encode(&self.merger, cache, chars, slice, false, {});
            start = end;
        }
        return start;
    }

    /// Whether no token can cover the boundary at `index`, which is inside the text.
    pub fn isFreeSeam(self: *Encoder, text: []const u8, index: usize) Error!bool {
        if (text[index] < 0xE0 or index == 0) return false;
        // Only called for long texts, so building the table pays off.
        const characters = self.tokenizer.charactersFor(self.gpa, 1 << 20) orelse return false;
        const before = unicode.decodeBefore(text, index);
        const left = try characters.charAt(&self.merger, text[index - before.len .. index]);
        const right = try characters.charAt(&self.merger, text[index..]);
        return characters.seams.joins(left.code_point, right.code_point) == 0 and
            characters.mayCut(left, right);
    }

    pub fn encodePretoken(self: *Encoder, piece: []const u8, sink: anytype) Error!void {
        const vocabulary = &self.tokenizer.vocabulary;
        const is_long = piece.len > @max(merge_short.len_max, vocabulary.token_len_max);
        const is_whole = !is_long or vocabulary.leftover == .settle or vocabulary.isTied(piece);
        if (is_whole or self.tokenizer.isRandom()) return sink.push(try self.merger.idsOf(piece));
        var rest = piece;
        if (self.cache != null and piece[0] | piece[1] >= 0xE0) {
            if (self.tokenizer.charactersFor(self.gpa, piece.len)) |characters| {
                rest = piece[try self.encodeLong(&self.cache.?, characters, piece, sink)..];
            }
        }
        // Both sinks are written directly. An intermediate list would be as large as a long text.
        if (@TypeOf(sink) == *Count) {
            const kept = merge_long.kept_max;
            const counted =
                try merge_long.count(self.gpa, vocabulary, rest, kept, &self.merger.long_ids);
            if (counted.stand_in) |id| try self.merger.refuseStandIns(&.{id});
            sink.count += counted.ids;
        } else {
            const before = sink.ids.items.len;
            try merge_long.merge(sink.gpa, vocabulary, rest, rest.len, &sink.ids);
            try self.merger.refuseStandIns(sink.ids.items[before..]);
            try expand.inList(sink.gpa, vocabulary, &sink.ids, before);
        }
    }
};

/// A sink that collects the ids.
pub const List = struct {
    gpa: Allocator,
    ids: std.ArrayList(u32) = .empty,

    /// Number of ids that a list of fixed capacity needs in addition to one per byte.
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

/// A sink that counts the ids.
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
