//! Counts of pretokens → merges, as a Python object: `Learner`.
//!
//! The caller adds tokens and words, runs it once, and reads the merges.

const std = @import("std");
const api = @import("api.zig");
const arguments = @import("arguments.zig");
const counting = @import("counting.zig");
const counts = @import("../count.zig");
const object_ = @import("object.zig");
const platform = @import("../platform.zig");
const results = @import("results.zig");
const source = @import("../train/source.zig");
const train = @import("../train.zig");
const Call = object_.Call;
const Class = object_.Class;
const Error = object_.Error;
const Object = api.Object;
const Raised = object_.Raised;
const Size = arguments.Size;
const Threads = arguments.Threads;
const Unlocked = object_.Unlocked;

const gpa = object_.gpa;
const constructor = object_.constructor;
const method = object_.method;

/// The value of a Learner.
const Learner = struct {
    pub const class: Class = .Learner;
    pub const busy_text = "another thread is using this learner";

    learner: source.Learner,
    /// The thread that runs it and reports its progress, if there is one.
    runner: ?platform.threads.Id = null,

    pub fn deinit(self: *Learner) void {
        self.learner.deinit();
    }

    fn raise(
        self: *const Learner,
        call: Call,
        failure: source.AnyError,
        report: *const counts.Report,
    ) Raised {
        return call.raise(self.learner.failureOf(failure, report));
    }
};

fn newLearner(call: Call, args: struct {
    alphabet: []const u32,
    tokens: []const u8,
    token_lengths: []const u32,
    token_ids: []const u32,
    ties: train.Ties,
    first_id: u32,
    made_from: u32,
    ids_end: u64,
    count_min: u64,
    len_end: u64,
    threads: Threads,
    memory: Size,
    revives: bool,
    scripts: []const u32,
}) Error!Learner {
    if (train.failureOf(args.first_id, args.ids_end)) |reason| return call.raise(reason);
    var made: source.Learner = try .init(gpa, .{
        .ties = args.ties,
        .first_id = args.first_id,
        .made_from = args.made_from,
        .ids_end = @intCast(args.ids_end),
        .count_min = args.count_min,
        .len_end = std.math.cast(u32, args.len_end) orelse std.math.maxInt(u32),
        .threads = args.threads.value,
        .memory = args.memory.value,
        .revives = args.revives,
    });
    errdefer made.deinit();
    const failure = try made.addTokens(.{
        .alphabet = args.alphabet,
        .bytes = args.tokens,
        .lengths = args.token_lengths,
        .ids = args.token_ids,
        .scripts = args.scripts,
    });
    if (failure) |reason| return call.raise(reason);
    return .{ .learner = made };
}

/// spill(files): stores the words to be added in open files, one per thread
fn spillWords(call: Call, self: *Learner, args: struct { files: []const u32 }) Error!void {
    self.learner.spillTo(args.files) catch |failure| return self.raise(call, failure, &.{});
}

/// add(counts): adds the pretokens of an Inventory or a CountsFile as words of the alphabet's ids
fn addCounts(call: Call, self: *Learner, args: struct { counts: Counts }) Error!void {
    switch (args.counts) {
        .inventory => |object| {
            const given = .{ &self.learner, &object.value.?.inventory };
            object_.unlocked(source.Learner.addInventory, given) catch |failure|
                return self.raise(call, failure, &.{});
        },
        .file => |object| {
            const file = try object.borrow(call);
            defer object.giveBack();
            const given = .{ &self.learner, &file.open.reader };
            object_.unlocked(source.Learner.addFile, given) catch |failure|
                return self.raise(call, failure, &file.open.report);
        },
    }
}

const Counts = union(enum) {
    inventory: *object_.Object(counting.Inventory),
    file: *object_.Object(counting.File),

    pub fn from(call: Call, object: *Object, name: []const u8) Error!Counts {
        const classes = &call.state().classes;
        if (object.type == classes.get(.Inventory).?) return .{ .inventory = .of(object) };
        if (object.type == classes.get(.CountsFile).?) return .{ .file = .of(object) };
        return call.fail(.type, "{s} must be an Inventory or a CountsFile", .{name});
    }
};

/// add_ids(ids, lengths, counts): adds words of existing tokens, concatenated
fn addIds(call: Call, self: *Learner, args: struct {
    ids: []const u32,
    lengths: []const u32,
    counts: []const u64,
}) Error!void {
    self.learner.addWords(args.ids, args.lengths, args.counts) catch |failure|
        return self.raise(call, failure, &.{});
}

/// The poll during a run: checks for signals, and reports progress to the caller.
const Asking = struct {
    unlocked: Unlocked,
    call: Call,
    learner: *const source.Learner,
    progress: ?*Object,

    fn ask(context: *anyopaque) bool {
        const self: *Asking = @ptrCast(@alignCast(context));
        api.PyEval_RestoreThread(self.unlocked.saved);
        defer self.unlocked.saved = api.PyEval_SaveThread();
        if (api.PyErr_CheckSignals() != 0) return true;
        self.report() catch |failure| {
            if (failure == error.OutOfMemory) _ = api.PyErr_NoMemory();
            return true;
        };
        return false;
    }

    /// Calls progress(merges, count).
    fn report(self: *Asking) Error!void {
        const progress = self.progress orelse return;
        const learned = self.learner.learned();
        const last = if (learned.len > 0) learned[learned.len - 1].count else 0;
        const numbers = try results.convert(self.call, .{ learned.len, last });
        defer api.Py_DecRef(numbers);
        const answer = api.PyObject_CallObject(progress, numbers) orelse return error.Raised;
        api.Py_DecRef(answer);
    }
};

/// run(progress): learns the merges; progress(merges, count) is called periodically
fn run(call: Call, self: *Learner, args: struct { progress: ?*Object }) Error!void {
    self.runner = platform.threads.currentId();
    defer self.runner = null;
    var asking: Asking = .{
        .unlocked = .begin(),
        .call = call,
        .learner = &self.learner,
        .progress = args.progress,
    };
    const outcome = self.learner.run(.{ .context = &asking, .function = Asking.ask });
    asking.unlocked.end();
    outcome catch |failure| return self.raise(call, failure, &.{});
}

/// Merges in the order in which they were learned.
pub const Merges = struct {
    pub const sequence = "Merges";

    lefts: []u32,
    rights: []u32,
    ids: []u32,
    counts: []u64,
};

/// merges(start) → Merges from merge `start` on; during a run, callable from `progress`, with the
/// merges so far
fn merges(call: Call, object: *object_.Object(Learner), args: struct { start: Size }) Error!Merges {
    const self = object.value.?;
    if (object.is_busy and self.runner != platform.threads.currentId()) {
        return call.fail(.busy, Learner.busy_text, .{});
    }
    const all = self.learner.learned();
    const some = all[@min(args.start.value, all.len)..];
    const lefts = try column(some, "left");
    errdefer gpa.free(lefts);
    const rights = try column(some, "right");
    errdefer gpa.free(rights);
    const ids = try column(some, "new");
    errdefer gpa.free(ids);
    return .{ .lefts = lefts, .rights = rights, .ids = ids, .counts = try column(some, "count") };
}

fn column(
    learned: []const train.Learned,
    comptime name: []const u8,
) Error![]@FieldType(train.Learned, name) {
    const numbers = try gpa.alloc(@FieldType(train.Learned, name), learned.len);
    for (numbers, learned) |*place, one| place.* = @field(one, name);
    return numbers;
}

/// The exactness check of a run, and its statistics.
pub const Certificate = struct {
    pub const sequence = "Certificate";

    min_tracked_count: u64,
    rescans: u64,
    batches: u64,
    scans: u64,
    visits: u64,
    bytes: u64,
};

/// certificate() → Certificate
fn certificate(_: Call, self: *Learner) Error!Certificate {
    const found = self.learner.certificate();
    return .{
        .min_tracked_count = found.floor,
        .rescans = found.rescans,
        .batches = found.batches,
        .scans = found.scans,
        .visits = found.visits,
        .bytes = self.learner.bytes(),
    };
}

const methods = [_]api.Method{
    method("spill", spillWords),
    method("add", addCounts),
    method("add_ids", addIds),
    method("run", run),
    method("merges", merges),
    method("certificate", certificate),
    .{},
};
pub const spec =
    object_.Object(Learner).spec(&methods, constructor(Learner, newLearner), &.{});
