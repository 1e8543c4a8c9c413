//! Texts → counts of pretokens, as Python objects: `Counter`, `Inventory`, `CountsFile`.
//!
//! A file of counts takes the place of an inventory that does not fit into memory.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const counts = @import("../count.zig");
const load = @import("load.zig");
const object_ = @import("object.zig");
const results = @import("results.zig");
const Call = object_.Call;
const Class = object_.Class;
const Data = arguments.Data;
const Error = object_.Error;
const Failure = @import("../failure.zig").Failure;
const Int = arguments.Int;
const Object = api.Object;
const Path = arguments.Path;
const Raised = object_.Raised;
const Text = arguments.Text;
const Texts = arguments.Texts;
const Threads = arguments.Threads;

const gpa = object_.gpa;
const constructor = object_.constructor;
const method = object_.method;

// ── Counter ──────────────────────────────────────────────────────────────────────────────────────

/// The value of a Counter.
const Counter = struct {
    pub const class: Class = .Counter;
    pub const busy_text = "another thread is using this counter; give each thread its own";

    counter: counts.Counter,

    pub fn deinit(self: *Counter) void {
        self.counter.deinit();
    }
};

fn raise(call: Call, failure: counts.Error) Raised {
    return call.raise(counts.failureOf(failure, &.{}));
}

/// Counter(scheme, special_tokens, seed, ordered)
fn newCounter(call: Call, args: struct {
    scheme: load.Scheme,
    special_tokens: Texts,
    seed: u64,
    ordered: bool,
}) Error!Counter {
    const names = args.special_tokens.slices.items;
    const scheme = try args.scheme.read(call);
    return .{ .counter = try .init(gpa, scheme, names, args.seed, args.ordered) };
}

/// add(texts, threads)
fn addTexts(
    call: Call,
    self: *Counter,
    args: struct { texts: Texts, threads: Threads },
) Error!void {
    const given = .{ &self.counter, args.texts.slices.items, args.threads.value };
    object_.polled(counts.Counter.add, given) catch |failure| return raise(call, failure);
}

/// add_blocks(blocks, threads): `blocks` are tuples (data, spans, whether the last one continues)
fn addBlocks(
    call: Call,
    self: *Counter,
    args: struct { blocks: Blocks, threads: Threads },
) Error!void {
    const given = .{ &self.counter, args.blocks.items.items, args.threads.value };
    object_.polled(counts.Counter.addBlocks, given) catch |failure| return raise(call, failure);
}

/// Blocks of documents. Their memory is kept alive while it is read without the GIL.
const Blocks = struct {
    objects: std.ArrayList(*Object) = .empty,
    parts: std.ArrayList(Block) = .empty,
    items: std.ArrayList(counts.Block) = .empty,

    const Block = arguments.Tuple(struct { data: Data, spans: arguments.Spans, continues: bool });

    pub fn from(call: Call, list: *Object, name: []const u8) Error!Blocks {
        if (!api.isList(list)) return call.fail(.type, "{s} must be a list", .{name});
        var self: Blocks = .{};
        errdefer self.release();
        const len: usize = @intCast(api.PyList_Size(list));
        try self.objects.ensureTotalCapacity(gpa, len);
        try self.parts.ensureTotalCapacity(gpa, len);
        try self.items.ensureTotalCapacity(gpa, len);
        for (0..len) |index| {
            // Asking for a buffer may run Python code that changes the list.
            const object = api.PyList_GetItem(list, @intCast(index)) orelse return error.Raised;
            api.Py_IncRef(object);
            self.objects.appendAssumeCapacity(object);
            const block = try Block.from(call, object, "a block");
            self.parts.appendAssumeCapacity(block);
            const texts = try block.fields.spans.in(call, block.fields.data.bytes);
            const continues = block.fields.continues;
            self.items.appendAssumeCapacity(.{ .texts = texts, .continues = continues });
        }
        return self;
    }

    pub fn release(self: *Blocks) void {
        for (self.items.items) |block| gpa.free(block.texts);
        for (self.parts.items) |*part| part.release();
        for (self.objects.items) |object| api.Py_DecRef(object);
        self.items.deinit(gpa);
        self.parts.deinit(gpa);
        self.objects.deinit(gpa);
    }
};

/// take() → Inventory; the counter is empty afterwards
fn take(call: Call, self: *Counter) Error!Inventory {
    const taken = object_.unlocked(counts.Counter.take, .{&self.counter}) catch |failure|
        return raise(call, failure);
    return .{ .inventory = taken };
}

/// spill(path): writes all counts to a file; the counter is empty afterwards
fn spillCounts(call: Call, self: *Counter, args: struct { path: Path }) Error!void {
    var report: counts.Report = .{};
    const given = .{ &self.counter, args.path.text.bytes, &report };
    object_.polled(counts.Counter.spill, given) catch |failure|
        return call.raise(counts.failureOf(failure, &report));
}

/// memory(), unique(), total() and open_bytes(), those of a document that continues → int
fn number(
    comptime what: enum { memory, unique, total, open_bytes },
) fn (Call, *Counter) Error!u64 {
    return struct {
        fn get(call: Call, self: *Counter) Error!u64 {
            const counter = &self.counter;
            counter.check() catch |failure| return raise(call, failure);
            return switch (what) {
                .memory => counter.memory(),
                .unique => counter.unique(),
                .total => counter.total(),
                .open_bytes => counter.open.items.len,
            };
        }
    }.get;
}

/// last_cut(data, names) → the last offset where a text that continues may be cut, or None
pub fn lastCut(_: Call, args: struct { data: Data, names: Texts }) Error!?usize {
    var specials = try counts.specialsOf(gpa, args.names.slices.items);
    defer specials.deinit(gpa);
    return counts.findLastCut(args.data.bytes, &specials);
}

const counter_methods = [_]api.Method{
    method("add", addTexts),
    method("add_blocks", addBlocks),
    method("take", take),
    method("spill", spillCounts),
    method("memory", number(.memory)),
    method("unique", number(.unique)),
    method("total", number(.total)),
    method("open_bytes", number(.open_bytes)),
    .{},
};
pub const counter_spec =
    object_.Object(Counter).spec(&counter_methods, constructor(Counter, newCounter), &.{});

// ── Inventory ────────────────────────────────────────────────────────────────────────────────────

/// The value of an Inventory, which is immutable.
pub const Inventory = struct {
    pub const class: Class = .Inventory;

    inventory: counts.Inventory,

    pub fn deinit(self: *Inventory) void {
        self.inventory.deinit(gpa);
    }
};

/// Inventory(bytes, lengths, counts): the pretokens end to end, u32 and u64
fn newInventory(call: Call, args: struct {
    bytes: []const u8,
    lengths: []const u32,
    counts: []const u64,
}) Error!Inventory {
    var failure: Failure = undefined;
    const made = counts.Inventory.of(gpa, args.bytes, args.lengths, args.counts, &failure);
    return .{ .inventory = made catch |reason| switch (reason) {
        error.OutOfMemory => return error.OutOfMemory,
        error.Rejected => return call.raise(failure),
    } };
}

fn inventoryLength(object: *Object) callconv(.c) api.Ssize {
    return @intCast(object_.Object(Inventory).of(object).value.?.inventory.lengths.len);
}

/// Pretokens end to end, and the length and the count of each.
pub const Pretokens = struct {
    pub const sequence = "Pretokens";

    bytes: []u8,
    lengths: []u32,
    counts: []u64,
};

/// arrays() → Pretokens, copies
fn arrays(_: Call, self: *Inventory) Error!Pretokens {
    const bytes = try gpa.dupe(u8, self.inventory.bytes);
    errdefer gpa.free(bytes);
    const lengths = try gpa.dupe(u32, self.inventory.lengths);
    errdefer gpa.free(lengths);
    return .{
        .bytes = bytes,
        .lengths = lengths,
        .counts = try gpa.dupe(u64, self.inventory.counts),
    };
}

/// total() → the sum of all counts
fn inventoryTotal(call: Call, self: *Inventory) Error!u64 {
    return self.inventory.total() catch |failure| raise(call, failure);
}

/// write(path, metadata): sorted, and equal entries added up
fn write(call: Call, self: *Inventory, args: struct { path: Path, metadata: Data }) Error!void {
    var report: counts.Report = .{};
    const path = args.path.text.bytes;
    const given = .{ gpa, &self.inventory, path, args.metadata.bytes, &report };
    object_.polled(counts.writeInventory, given) catch |failure|
        return call.raise(counts.failureOf(failure, &report));
}

const inventory_methods = [_]api.Method{
    method("arrays", arrays),
    method("total", inventoryTotal),
    method("write", write),
    .{},
};
pub const inventory_spec =
    object_.Object(Inventory).spec(&inventory_methods, constructor(Inventory, newInventory), &.{
        .{ .slot = api.sq_length, .function = @ptrCast(&inventoryLength) },
    });

// ── CountsFile ───────────────────────────────────────────────────────────────────────────────────

/// The value of a CountsFile: an open file and its error report.
pub const File = struct {
    pub const class: Class = .CountsFile;
    pub const busy_text = "another thread is reading this file";

    /// At a fixed address, since the reader reports to it.
    open: *Open,

    pub const Open = struct { reader: counts.Reader, report: counts.Report, path: []u8 };

    pub fn deinit(self: *File) void {
        self.open.reader.close();
        gpa.free(self.open.path);
        gpa.destroy(self.open);
    }

    fn init(path: []const u8, report: *counts.Report) counts.Error!File {
        const open = try gpa.create(Open);
        errdefer gpa.destroy(open);
        const copy = try gpa.dupe(u8, path);
        errdefer gpa.free(copy);
        open.* = .{ .reader = undefined, .report = .{}, .path = copy };
        errdefer report.* = open.report;
        open.reader = try .open(gpa, copy, &open.report);
        return .{ .open = open };
    }

    fn read(self: *File, call: Call, entries_max: usize) Error!counts.Inventory {
        const given = .{ gpa, &self.open.reader, entries_max };
        return object_.unlocked(counts.readInventory, given) catch |failure|
            call.raise(counts.failureOf(failure, &self.open.report));
    }
};

/// CountsFile(path)
fn newFile(call: Call, args: struct { path: Path }) Error!File {
    var report: counts.Report = .{};
    return File.init(args.path.text.bytes, &report) catch |failure|
        call.raise(counts.failureOf(failure, &report));
}

fn fileLength(object: *Object) callconv(.c) api.Ssize {
    return @intCast(object_.Object(File).of(object).value.?.open.reader.len);
}

/// total() → the sum of all counts
fn fileTotal(_: Call, self: *File) Error!u64 {
    return self.open.reader.total;
}

/// metadata() → bytes
fn fileMetadata(_: Call, self: *File) Error!*Object {
    return results.bytesOf(self.open.reader.metadata);
}

/// load() → Inventory of all entries, each of them validated
fn loadAll(call: Call, self: *File) Error!Inventory {
    self.open.reader.rewind();
    return .{ .inventory = try self.read(call, std.math.maxInt(usize)) };
}

/// read(entries_max) → Inventory of the next entries, or None after the last; see rewind()
fn readSome(
    call: Call,
    self: *File,
    args: struct { entries_max: Int(usize, 1, std.math.maxInt(isize)) },
) Error!?Inventory {
    var inventory = try self.read(call, args.entries_max.value);
    if (inventory.counts.len > 0) return .{ .inventory = inventory };
    inventory.deinit(gpa);
    return null;
}

fn rewind(_: Call, self: *File) Error!void {
    self.open.reader.rewind();
}

const file_methods = [_]api.Method{
    method("read", readSome),
    method("rewind", rewind),
    method("total", fileTotal),
    method("metadata", fileMetadata),
    method("load", loadAll),
    .{},
};
pub const file_spec = object_.Object(File).spec(&file_methods, constructor(File, newFile), &.{
    .{ .slot = api.sq_length, .function = @ptrCast(&fileLength) },
});

/// merge_counts(paths, weights, output, metadata): merges files of pretoken counts
pub fn mergeCounts(call: Call, args: struct {
    paths: Texts,
    weights: []const f64,
    output: Path,
    metadata: Data,
}) Error!void {
    const paths = args.paths.slices.items;
    if (counts.weightFailureOf(args.weights, paths.len)) |failure| return call.raise(failure);
    var report: counts.Report = .{};
    const output = args.output.text.bytes;
    const given = .{ gpa, paths, args.weights, output, args.metadata.bytes, &report };
    object_.polled(counts.mergeFiles, given) catch |failure|
        return call.raise(counts.failureOf(failure, &report));
}
