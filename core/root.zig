//! The core of tokenmill: bytes and ids, independent of Python.
//!
//!     training:  documents ▶ pretokens ▶ count ▶ train
//!     encoding:  bytes ▶ pretokens ▶ (with the vocabulary) ids

pub const platform = @import("platform.zig");
pub const failure = @import("failure.zig");
pub const unicode = @import("unicode.zig");
pub const pretokens = @import("pretokens.zig");
pub const normalize = @import("normalize.zig");
pub const vocabulary = @import("vocabulary.zig");
pub const model_files = @import("model_files.zig");
pub const added = @import("added.zig");
pub const documents = @import("documents.zig");
pub const count = @import("count.zig");
pub const train = @import("train.zig");
pub const ids = @import("ids.zig");

test {
    _ = platform;
    _ = failure;
    _ = unicode;
    _ = pretokens;
    _ = normalize;
    _ = vocabulary;
    _ = model_files;
    _ = added;
    _ = documents;
    _ = count;
    _ = train;
    _ = ids;
}
