//! A file of counts → its entries, in the order of their bytes.
//!
//! One block is in memory at a time. Files are untrusted. Each length is checked against the size
//! of the file before it is used. Entries must be sorted, and their sums must equal those in the
//! file. An error has an offset.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const writer = @import("writer.zig");
const Crc = writer.Crc;

/// The size of the smallest entry: three numbers, and an empty pretoken.
const entry_bytes_min = 3;

pub const Reader = struct {
    gpa: Allocator,
    file: platform.files.File,
    file_len: u64,
    report: *counts.Report,
    path: []const u8,
    metadata: []const u8,
    /// The sums in the file. Entries share prefixes, so their bytes may be more than the file has.
    len: usize,
    bytes_total: usize,
    total: u64,
    /// The offsets of the first block and of the next one.
    blocks_start: u64,
    offset: u64,
    block: std.ArrayList(u8) = .empty,
    /// The rest of the block.
    at: usize = 0,
    payload_end: usize = 0,
    entries_left: u32 = 0,
    /// The last entry.
    entry: std.ArrayList(u8) = .empty,
    entries_read: u64 = 0,
    bytes_read: u64 = 0,
    total_read: u64 = 0,

    /// Opens a file and checks its head and footer. `path` and `report` must outlive the reader.
    pub fn open(gpa: Allocator, path: []const u8, report: *counts.Report) counts.Error!Reader {
        report.setPath(path);
        const file = platform.files.File.open(path) catch |failure|
            return report.failed(failure);
        errdefer file.close();
        const file_len = file.length() catch |failure| return report.failed(failure);
        var self: Reader = .{
            .gpa = gpa,
            .file = file,
            .file_len = file_len,
            .report = report,
            .path = path,
            .metadata = &.{},
            .len = 0,
            .bytes_total = 0,
            .total = 0,
            .blocks_start = 0,
            .offset = 0,
        };
        errdefer gpa.free(self.metadata);
        try self.readHead();
        try self.readFooter();
        return self;
    }

    pub fn close(self: *Reader) void {
        self.file.close();
        self.gpa.free(self.metadata);
        self.block.deinit(self.gpa);
        self.entry.deinit(self.gpa);
    }

    /// Continues with the first entry.
    pub fn rewind(self: *Reader) void {
        self.offset = self.blocks_start;
        self.entries_left = 0;
        self.at = 0;
        self.payload_end = 0;
        self.entry.clearRetainingCapacity();
        self.entries_read = 0;
        self.bytes_read = 0;
        self.total_read = 0;
    }

    fn invalid(self: *Reader, what: []const u8, offset: u64) counts.Error {
        self.report.setPath(self.path);
        return self.report.invalid(what, offset);
    }

    fn read(self: *Reader, into: []u8, offset: u64) counts.Error!void {
        const got = self.file.readAll(into, offset) catch |failure| {
            self.report.setPath(self.path);
            return self.report.failed(failure);
        };
        if (got < into.len) return self.invalid("the file ends too early", offset + got);
    }

    fn readHead(self: *Reader) counts.Error!void {
        @setRuntimeSafety(true);
        var head: [8]u8 = undefined;
        if (self.file_len < head.len + 4 + writer.footer_len) {
            return self.invalid("the file is too short for counts", self.file_len);
        }
        try self.read(&head, 0);
        if (!std.mem.eql(u8, head[0..4], writer.magic)) {
            return self.invalid("this is not a file of counts that this version reads", 0);
        }
        const len = std.mem.readInt(u32, head[4..8], .little);
        const room = self.file_len - head.len - 4 - writer.footer_len;
        if (len > writer.metadata_len_max or len > room) {
            return self.invalid("the length of the metadata is wrong", 4);
        }
        const metadata = try self.gpa.alloc(u8, len);
        self.metadata = metadata;
        try self.read(metadata, head.len);
        var stored: [4]u8 = undefined;
        try self.read(&stored, head.len + len);
        var crc: Crc = .init();
        crc.update(&head);
        crc.update(metadata);
        if (crc.final() != std.mem.readInt(u32, &stored, .little)) {
            return self.invalid("the checksum of the metadata is wrong", head.len + len);
        }
        self.blocks_start = head.len + len + 4;
        self.offset = self.blocks_start;
    }

    fn readFooter(self: *Reader) counts.Error!void {
        @setRuntimeSafety(true);
        var footer: [writer.footer_len]u8 = undefined;
        const start = self.file_len - footer.len;
        try self.read(&footer, start);
        const stored = std.mem.readInt(u32, footer[footer.len - 4 ..], .little);
        if (Crc.hash(footer[0 .. footer.len - 4]) != stored or
            !std.mem.allEqual(u8, footer[0..writer.block_head_len], 0))
        {
            return self.invalid("the end of the file is missing or damaged", start);
        }
        const entries = std.mem.readInt(u64, footer[8..16], .little);
        self.total = std.mem.readInt(u64, footer[16..24], .little);
        const bytes = std.mem.readInt(u64, footer[24..32], .little);
        if (entries > (start - self.blocks_start) / entry_bytes_min or
            bytes > std.math.maxInt(usize))
        {
            return self.invalid("the file says that it has more entries than it can", start);
        }
        self.len = @intCast(entries);
        self.bytes_total = @intCast(bytes);
    }

    /// Returns the next entry, or null after the last one. Valid until the next call.
    pub fn next(self: *Reader) counts.Error!?counts.Entry {
        @setRuntimeSafety(true);
        const is_first = self.entries_left == 0;
        if (is_first and !try self.nextBlock()) return null;
        const start = self.at;
        const shared = try self.readVarint();
        const suffix_len = try self.readVarint();
        const count = try self.readVarint();
        if (shared > (if (is_first) 0 else self.entry.items.len)) {
            return self.invalidEntry("an entry shares more than the one before it has", start);
        }
        if (suffix_len > self.payload_end - self.at) {
            return self.invalidEntry("an entry is longer than its block", start);
        }
        const suffix = self.block.items[self.at..][0..@intCast(suffix_len)];
        self.at += suffix.len;
        const kept: usize = @intCast(shared);
        const is_greater = std.mem.lessThan(u8, self.entry.items[kept..], suffix);
        if (!is_greater and self.entries_read > 0) {
            return self.invalidEntry("the entries are not sorted", start);
        }
        if (count == 0) return self.invalidEntry("an entry has the count 0", start);
        if (shared + suffix_len > counts.bytes_max) {
            return self.invalidEntry("an entry is too long", start);
        }
        self.entry.shrinkRetainingCapacity(kept);
        try self.entry.appendSlice(self.gpa, suffix);
        self.entries_left -= 1;
        self.entries_read += 1;
        self.bytes_read += self.entry.items.len;
        self.total_read = std.math.add(u64, self.total_read, count) catch
            return self.invalidEntry("the counts add up to 2^64 or more", start);
        if (self.entries_left == 0 and self.at != self.payload_end) {
            return self.invalidEntry("a block has bytes after its last entry", self.at);
        }
        return .{ .bytes = self.entry.items, .count = count };
    }

    fn invalidEntry(self: *Reader, what: []const u8, at: usize) counts.Error {
        const block_start = self.offset - self.block.items.len - writer.block_head_len;
        return self.invalid(what, block_start + writer.block_head_len + at);
    }

    fn readVarint(self: *Reader) counts.Error!u64 {
        @setRuntimeSafety(true);
        const start = self.at;
        var number: u64 = 0;
        var shift: u32 = 0;
        while (self.at < self.payload_end) {
            const byte = self.block.items[self.at];
            self.at += 1;
            // The tenth byte has one bit left.
            if (shift == 63 and byte > 1) break;
            number |= @as(u64, byte & 0x7F) << @intCast(shift);
            if (byte < 0x80) return number;
            shift += 7;
        }
        return self.invalidEntry("a number does not end", start);
    }

    /// Reads a block. Returns false at the end of a complete file.
    fn nextBlock(self: *Reader) counts.Error!bool {
        @setRuntimeSafety(true);
        const end = self.file_len - writer.footer_len;
        if (self.offset == end) {
            if (self.entries_read != self.len or self.total_read != self.total or
                self.bytes_read != self.bytes_total)
            {
                return self.invalid("the sums of the entries are not those in the file", end);
            }
            return false;
        }
        var head: [writer.block_head_len]u8 = undefined;
        const overhead = head.len + 4;
        if (end - self.offset < overhead) return self.invalid("a block is cut off", self.offset);
        try self.read(&head, self.offset);
        const payload_len: u64 = std.mem.readInt(u32, head[0..4], .little);
        const entries = std.mem.readInt(u32, head[4..8], .little);
        if (payload_len > end - self.offset - overhead) {
            return self.invalid("a block is longer than the file", self.offset);
        }
        if (entries == 0 or entries > payload_len / entry_bytes_min) {
            return self.invalid("a block has more entries than bytes for them", self.offset);
        }
        try self.block.resize(self.gpa, @intCast(payload_len + 4));
        try self.read(self.block.items, self.offset + head.len);
        const payload = self.block.items[0..@intCast(payload_len)];
        var crc: Crc = .init();
        crc.update(&head);
        crc.update(payload);
        const stored = std.mem.readInt(u32, self.block.items[payload.len..][0..4], .little);
        if (crc.final() != stored) {
            return self.invalid("the checksum of a block is wrong", self.offset);
        }
        self.offset += head.len + self.block.items.len;
        self.at = 0;
        self.payload_end = payload.len;
        self.entries_left = entries;
        return true;
    }
};
