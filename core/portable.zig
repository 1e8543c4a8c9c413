//! The functions of the core that a binding without threads and files calls.
//!
//! `build.py` compiles this file for WebAssembly. It fails if a module needs a system.

const std = @import("std");
const core = @import("root.zig");

const Learner = core.train.Learner(u32);

/// The addresses keep the functions, so the compiler compiles them and all that they call.
export const functions = [_]*const anyopaque{
    @ptrCast(&core.vocabulary.Vocabulary.fromTokens),
    @ptrCast(&core.vocabulary.Vocabulary.fromImage),
    @ptrCast(&core.vocabulary.Vocabulary.fromModel),
    @ptrCast(&core.model_files.readModel),
    @ptrCast(&core.model_files.readFiles),
    @ptrCast(&core.normalize.Steps.init),
    @ptrCast(&core.normalize.Steps.apply),
    @ptrCast(&core.ids.front.Front.init),
    @ptrCast(&core.ids.Tokenizer.init),
    @ptrCast(&core.ids.Tokenizer.deinit),
    @ptrCast(&encode),
    @ptrCast(&countTokens),
    @ptrCast(&encodeWithOffsets),
    @ptrCast(&core.ids.batch.Batch.encode),
    @ptrCast(&core.ids.batch.Batch.count),
    @ptrCast(&core.ids.truncate.prefixEnd),
    @ptrCast(&core.ids.truncate.suffixStart),
    @ptrCast(&core.ids.Session.init),
    @ptrCast(&core.ids.Session.replace),
    @ptrCast(&core.documents.json_lines.read),
    @ptrCast(&core.documents.utf8.problems),
    @ptrCast(&core.count.Counter.init),
    @ptrCast(&core.count.Counter.add),
    @ptrCast(&core.count.Counter.take),
    @ptrCast(&Learner.init),
    @ptrCast(&Learner.addToken),
    @ptrCast(&Learner.addWord),
    @ptrCast(&Learner.run),
};

fn encode(encoder: *core.ids.Encoder, text: []const u8, list: *core.ids.List) !void {
    try encoder.encode(text, null, list);
}

fn countTokens(encoder: *core.ids.Encoder, text: []const u8, sink: *core.ids.Count) !void {
    try encoder.encode(text, null, sink);
}

fn encodeWithOffsets(encoder: *core.ids.Encoder, text: []const u8, spans: *core.ids.Spans) !void {
    try encoder.encode(text, null, spans);
}
