//! Documents → counted pretokens: the tables and queues of one thread.
//!
//! Up to 128 short pretokens are counted together: first their keys are made and their lines are
//! fetched, then they are counted. A key is a copy, so a group can continue in the next document,
//! and many short documents are as fast as a long one. Long pretokens have their own groups.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const pretokens = @import("../pretokens.zig");
const words_ = @import("words.zig");
const Words = words_.Words;
const strings_ = @import("strings.zig");
const Strings = strings_.Strings;

pub const Error = error{ OutOfMemory, Interrupted };

comptime {
    std.debug.assert(words_.key_len_max == pretokens.Sweep.padded_len_max);
}

/// The number of lines that are fetched in advance.
const ahead = 128;

pub const Tally = struct {
    /// Aligned to cache lines, because other threads write to the neighbours.
    gpa: Allocator align(128),
    secret: words_.Secret,
    hasher: strings_.Secret,
    words: Words,
    strings: Strings,
    /// Whether the order of first occurrence is kept. Then all pretokens are strings, whose places
    /// in the arena are in that order.
    ordered: bool,
    /// The number of counted pretokens.
    total: u64 = 0,
    /// Called about once per megabyte.
    poll: ?platform.threads.Poll = null,
    bytes_since_poll: usize = 0,
    keys: [ahead]words_.Key = undefined,
    lines: [ahead]*words_.Line = undefined,
    keys_len: usize = 0,
    pieces: [ahead][]const u8 = undefined,
    hashes: [ahead]u64 = undefined,
    pieces_len: usize = 0,

    pub fn create(gpa: Allocator, seed: u64, ordered: bool) Allocator.Error!*Tally {
        const self = try gpa.create(Tally);
        errdefer gpa.destroy(self);
        var words: Words = try .init();
        errdefer words.deinit(gpa);
        self.* = .{
            .gpa = gpa,
            .secret = .init(seed),
            .hasher = .init(seed),
            .words = words,
            .strings = try .init(),
            .ordered = ordered,
        };
        return self;
    }

    pub fn destroy(self: *Tally) void {
        self.words.deinit(self.gpa);
        self.strings.deinit(self.gpa);
        self.gpa.destroy(self);
    }

    pub fn bytes(self: *const Tally) usize {
        return @sizeOf(Tally) + self.words.bytes() + self.strings.bytes();
    }

    /// Counts the pretokens of a document, which must not move until `flush`.
    pub fn add(self: *Tally, scheme: *const pretokens.Scheme, document: []const u8) Error!void {
        var sweep: pretokens.Sweep = undefined;
        sweep.init(self.gpa, scheme, document);
        defer sweep.deinit();
        while (try sweep.next()) |batch| {
            try self.pollAfter(batch.len);
            try self.addBatch(document, batch);
        }
    }

    pub fn pollAfter(self: *Tally, len: usize) Error!void {
        self.bytes_since_poll += len;
        if (self.bytes_since_poll < platform.threads.Poll.bytes_between) return;
        self.bytes_since_poll = 0;
        const poll = self.poll orelse return;
        if (poll.function(poll.context)) return error.Interrupted;
    }

    /// Counts the pretokens of a batch of `document`.
    pub fn addBatch(self: *Tally, document: []const u8, batch: pretokens.Batch) Error!void {
        if (batch.ends.len == 0) return self.addAlone(document[batch.start..][0..batch.len]);
        self.total += batch.ends.len;
        var start: u32 = 0;
        var rest = batch.ends;
        while (rest.len > 0) {
            const room = @min(ahead - self.keys_len, ahead - self.pieces_len);
            if (room == 0) {
                try self.flush();
                continue;
            }
            if (self.keys_len == 0) try self.words.reserve(ahead);
            const taken = rest[0..@min(room, rest.len)];
            const from = document.ptr + batch.start;
            start = if (self.ordered)
                self.prepare(0, from, batch.bytes, start, taken)
            else
                self.prepare(words_.key_len_max, from, batch.bytes, start, taken);
            rest = rest[taken.len..];
        }
    }

    /// Counts any one pretoken.
    pub fn addAlone(self: *Tally, piece: []const u8) Error!void {
        self.total += 1;
        if (!self.ordered and words_.isShort(piece)) {
            try self.flushWords();
            try self.words.reserve(1);
            const key = self.keyOf(piece);
            return self.increment(key, try self.words.findOrInsert(key));
        }
        try self.flushStrings();
        try self.strings.add(self.gpa, self.hashOf(piece), piece);
    }

    /// Reverses `addAlone`.
    pub fn takeOff(self: *Tally, piece: []const u8) void {
        self.total -= 1;
        if (words_.isShort(piece)) return self.words.takeOff(self.keyOf(piece));
        self.strings.takeOff(self.hashOf(piece), piece);
    }

    fn keyOf(self: *const Tally, piece: []const u8) words_.Key {
        var padded: [16]u8 = @splat(0);
        @memcpy(padded[0..piece.len], piece);
        return self.secret.keyOf(&padded, piece.len);
    }

    inline fn hashOf(self: *const Tally, piece: []const u8) u64 {
        return self.hasher.hashOf(piece);
    }

    /// Fetches the lines of pretokens. Those of up to `key_len_max` bytes are words. Returns the
    /// end of the last one.
    inline fn prepare(
        self: *Tally,
        comptime key_len_max: usize,
        document: [*]const u8,
        batch_bytes: [*]const u8,
        first: u32,
        ends: []const u32,
    ) u32 {
        // Local copies, which no other code can write to.
        const secret = self.secret;
        const lines = self.words.lines.ptr;
        const homes = self.words.homes;
        var start = first;
        var len = self.keys_len;
        for (ends) |end| {
            const piece_len = end - start;
            if (piece_len <= key_len_max) {
                @branchHint(.likely);
                const key = secret.keyOf(batch_bytes + start, piece_len);
                const line = &lines[words_.placeOf(words_.hashOf(key), homes)];
                @prefetch(line, .{ .rw = .write });
                self.keys[len] = key;
                self.lines[len] = line;
                len += 1;
            } else {
                // Bytes of the document, because a batch may be a temporary copy.
                const piece = document[start..end];
                const hash = self.hashOf(piece);
                @prefetch(self.strings.homeOf(hash), .{ .rw = .write });
                self.pieces[self.pieces_len] = piece;
                self.hashes[self.pieces_len] = hash;
                self.pieces_len += 1;
            }
            start = end;
        }
        self.keys_len = len;
        return start;
    }

    /// Counts all queued pretokens.
    pub fn flush(self: *Tally) Error!void {
        try self.flushWords();
        try self.flushStrings();
    }

    fn flushWords(self: *Tally) Error!void {
        defer self.keys_len = 0;
        for (self.keys[0..self.keys_len], self.lines[0..self.keys_len], 1..) |key, line, behind| {
            const count = Words.hit(line, key) orelse try self.insert(key, behind);
            try self.increment(key, count);
        }
    }

    /// Returns the count of a key that is not in its home.
    noinline fn insert(self: *Tally, key: words_.Key, behind: usize) Error!*u32 {
        const before = self.words.lines.ptr;
        const count = try self.words.findOrInsert(key);
        if (self.words.lines.ptr != before) {
            @branchHint(.cold);
            const keys = self.keys[behind..self.keys_len];
            for (keys, self.lines[behind..self.keys_len]) |next, *line| {
                line.* = self.words.homeOf(next);
            }
        }
        return count;
    }

    inline fn increment(self: *Tally, key: words_.Key, count: *u32) Error!void {
        count.* +%= 1;
        if (count.* == 0) {
            @branchHint(.cold);
            try self.words.carry(self.gpa, key, count);
        }
    }

    fn flushStrings(self: *Tally) Error!void {
        defer self.pieces_len = 0;
        const hashes = self.hashes[0..self.pieces_len];
        for (hashes) |hash| self.strings.prepare(hash);
        for (hashes, self.pieces[0..self.pieces_len]) |hash, piece| {
            try self.strings.add(self.gpa, hash, piece);
        }
    }
};
