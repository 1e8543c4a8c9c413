//! The functions of the core that a binding without threads and files calls.
//!
//! `build.py` compiles this file for WebAssembly. It fails if a module needs a system.

const std = @import("std");
const core = @import("root.zig");

const Learner = core.merges.Learner(u32);

/// The addresses keep the functions, so the compiler compiles them and all that they call.
export const functions = [_]*const anyopaque{
    @ptrCast(&core.vocabulary.Vocabulary.fromTokens),
    @ptrCast(&core.vocabulary.Vocabulary.fromImage),
    @ptrCast(&core.vocabulary.Vocabulary.fromModel),
    @ptrCast(&core.files.readModel),
    @ptrCast(&core.files.readFiles),
    @ptrCast(&core.normal.Steps.init),
    @ptrCast(&core.normal.Steps.apply),
    @ptrCast(&core.ids.front.Front.init),
    @ptrCast(&core.ids.Tokenizer.init),
    @ptrCast(&core.ids.Tokenizer.deinit),
    @ptrCast(&encode),
    @ptrCast(&count),
    @ptrCast(&encodeWithOffsets),
    @ptrCast(&core.ids.batch.Batch.encode),
    @ptrCast(&core.ids.batch.Batch.count),
    @ptrCast(&core.ids.truncate.prefixEnd),
    @ptrCast(&core.ids.truncate.suffixStart),
    @ptrCast(&core.ids.Session.init),
    @ptrCast(&core.ids.Session.replace),
    @ptrCast(&core.documents.json_lines.read),
    @ptrCast(&core.documents.utf8.problems),
    @ptrCast(&core.counts.Counter.init),
    @ptrCast(&core.counts.Counter.add),
    @ptrCast(&core.counts.Counter.take),
    @ptrCast(&Learner.init),
    @ptrCast(&Learner.addToken),
    @ptrCast(&Learner.addWord),
    @ptrCast(&Learner.run),
};

fn encode(encoder: *core.ids.Encoder, text: []const u8, list: *core.ids.List) !void {
    try encoder.encode(text, null, list);
}

fn count(encoder: *core.ids.Encoder, text: []const u8, sink: *core.ids.Count) !void {
    try encoder.encode(text, null, sink);
}

fn encodeWithOffsets(encoder: *core.ids.Encoder, text: []const u8, spans: *core.ids.Spans) !void {
    try encoder.encode(text, null, spans);
}
