#!/usr/bin/env python3
"""Writes frames.json: byte vectors that the frame decoders of both languages are tested with.

The bytes are put together by hand from the wire format's rules, so that they check the generated code of either
language instead of repeating it. Run it after a change of proto/runner.proto: python3 test/golden/make_frames.py

Each vector has
  name       a sentence, unique
  direction  to_runner (at most 16 MiB a frame) or from_runner (at most 1 MiB)
  hex        the bytes of the whole stream
  frames     the messages a decoder of frames finds, in hex
  messages   the member of the oneof in each of those that is a message: all, or all but the last if error is garbage
             or empty
  json       what --json-frames has for the same messages; only vectors named "one ..." have it
  error      null, or what is wrong at the end:
             varint     the length takes more than 5 bytes
             oversize   the length is over the limit of its direction
             truncated  the stream ends inside a frame
             garbage    a frame is not protobuf
             empty      a frame has no member of the oneof that this version knows
A test feeds each vector whole, byte by byte, and split at every place.
"""

import json
import pathlib
import struct

TO_RUNNER_LIMIT = 16 << 20
FROM_RUNNER_LIMIT = 1 << 20
MAX_U32 = (1 << 32) - 1
MAX_U64 = (1 << 64) - 1


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def single(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def nested(field: int, payload: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(payload)) + payload


def text(field: int, value: str) -> bytes:
    return nested(field, value.encode())


def numbers(field: int, values: list[int]) -> bytes:
    return nested(field, b"".join(varint(value) for value in values))


def singles(field: int, values: list[float]) -> bytes:
    return nested(field, b"".join(struct.pack("<f", value) for value in values))


def frame(message: bytes) -> bytes:
    return varint(len(message)) + message


SAMPLING = (single(1, 0.75) + number(2, 40) + single(3, 0.875) + single(4, 0.0625) + single(5, 1.25)
            + number(6, MAX_U64) + single(7, 1.5) + single(8, -0.5)
            + nested(9, number(1, 11) + single(2, -100)) + nested(9, number(1, 49151) + single(2, 2.5)))
GENERATE = nested(1, number(1, 7) + numbers(2, [1, 300, 49151, 16777215]) + number(3, 2) + number(4, 2048)
                  + numbers(5, [0, 2]) + nested(6, SAMPLING) + number(7, 20))
# An optional field that holds its type's zero is written, which tells it from one that is not there.
GENERATE_ZEROS = nested(1, number(1, 1) + numbers(2, [5]) + number(4, 1)
                        + nested(6, single(1, 0.0) + number(2, 0) + single(3, 0.0) + single(4, 0.0)
                                 + number(6, 0) + single(7, 0.0) + single(8, 0.0)) + number(7, 0))
GENERATE_MASKED = nested(1, number(1, 3) + numbers(2, [5, 6]) + number(4, 9) + numbers(5, [2])
                         + nested(6, numbers(10, [2, 300, 49151]) + numbers(11, [300])) + number(8, 20) + number(9, 4)
                         + nested(10, bytes([0x00, 0xFF, 0x5A])) + numbers(12, [5, 300]))
GENERATE_GRAMMAR = nested(1, number(1, 4) + numbers(2, [5]) + number(4, 64) + numbers(5, [0])
                          + nested(11, number(1, 1) + text(2, '{"type":"object"}') + number(3, 1)))
CANCEL = nested(2, number(1, MAX_U32) + number(2, 1))
PAUSE = nested(3, number(1, 8))
RESUME = nested(4, number(1, 9))
DRAIN = nested(5, b"")
VOCABULARY = nested(6, number(1, 49152) + number(2, 300000) + number(3, 256) + numbers(4, [0, 3, 1])
                    + nested(5, b"\x00\xffa\n"))
RELEASE_KV = nested(8, number(1, 5))
EMBED = nested(7, number(1, 12) + numbers(2, [1, 300, 49151]) + number(3, 2) + nested(4, bytes([0x00, 0xFF, 0x5A]))
               + number(5, 2))

HELLO = nested(1, number(1, 3) + text(2, "cpu") + text(3, "0.1.0") + text(4, "cpu-f32-1") +
               text(5, "landlock+mdwe+seccomp"))
HELLO_999 = nested(1, number(1, 999) + text(2, "cpu") + text(3, "99.0.0") + text(4, "cpu-f32-1"))
LOAD_PROGRESS = nested(2, number(1, 1 << 33) + number(2, MAX_U64))
READY = nested(3, text(1, "5f3e-98765432-1700000000-42") + text(2, "llama") + text(3, "cpu, 2 threads ✓")
               + number(4, 49152) + number(5, 2048) + number(6, 64) + number(7, 256) + number(8, 32)
               + number(9, 1456) + number(10, 98304000) + number(11, 1 << 30) + text(12, "q8_0")
               + number(13, 576) + number(14, 98300000) + number(15, 7) + number(16, 1)
               + text(17, "cpu-f32-1-long") + number(18, 2))
LOGPROBS = single(1, -0.5) + numbers(2, [11, 49151]) + singles(3, [-0.5, -1.25])
OUTPUT = number(1, 7) + number(2, 3) + numbers(3, [11]) + number(4, 2) + nested(5, LOGPROBS)
FIRST_OUTPUT = number(1, 8) + number(2, 96) + number(3, 1500) + number(4, 1 << 33)
STEP = nested(4, number(1, MAX_U64) + nested(2, OUTPUT) + nested(2, number(1, 8) + numbers(3, [0]))
              + nested(3, FIRST_OUTPUT))
STEP_EMPTY = nested(4, number(1, 1))
HEARTBEAT = nested(5, number(1, 4) + number(2, 12345678901) + number(3, 64) + number(4, 1455))
REQUEST_ERROR = nested(6, number(1, 7) + number(2, 3) + text(3, "The KV cache holds 512 tokens."))
PROMPT_LOGPROBS = nested(8, number(1, 7) + number(2, 257) + nested(3, LOGPROBS) + nested(3, single(1, -12.5)))
STATS_FIELDS = ["num_waiting", "num_running", "num_paused", "num_finished", "num_failed", "num_preemptions",
                "num_prefill_steps", "num_decode_steps", "num_mixed_steps", "num_prefill_sequences",
                "num_decode_sequences", "num_prefill_tokens", "num_cached_tokens", "num_generated_tokens",
                "num_free_blocks", "num_reusable_blocks", "busy_us", "memory_bytes", "num_draft_tokens",
                "num_accepted_draft_tokens", "num_adopted_blocks", "num_dropped_blocks"]
STATS = nested(9, b"".join(number(i + 1, 100 + i) for i in range(len(STATS_FIELDS))))
EMBEDDING = nested(10, number(1, 12) + singles(2, [0.5, -1.25, 0.0]) + number(3, 96) + number(4, 1500)
                   + number(5, 1 << 33))
FAILURE = nested(7, number(1, 65) + text(2, "model.gguf: the magic is 0x00000000."))
FAILURE_OF_MEMORY = nested(7, number(1, 71) + text(2, "The GPU's memory is too small.") + text(3, "NVIDIA H200") +
                           number(4, 1 << 40) + number(5, 0))

TO_RUNNER = [("generate", GENERATE), ("generate", GENERATE_ZEROS), ("generate", GENERATE_MASKED),
             ("generate", GENERATE_GRAMMAR), ("cancel", CANCEL), ("pause", PAUSE), ("resume", RESUME), ("drain", DRAIN),
             ("vocabulary", VOCABULARY), ("embed", EMBED), ("release_kv", RELEASE_KV)]
FROM_RUNNER = [("hello", HELLO), ("load_progress", LOAD_PROGRESS), ("ready", READY), ("step", STEP),
               ("step", STEP_EMPTY), ("heartbeat", HEARTBEAT), ("request_error", REQUEST_ERROR), ("failure", FAILURE),
               ("failure", FAILURE_OF_MEMORY),
               ("prompt_logprobs", PROMPT_LOGPROBS), ("stats", STATS), ("embedding", EMBEDDING)]

# What --json-frames has for the same bytes; every field of every message is here.
JSON = {
    GENERATE: {"generate": {
        "request_id": 7, "token_ids": [1, 300, 49151, 16777215], "num_emitted": 2, "max_tokens": 2048,
        "stop_ids": [0, 2],
        "sampling": {"temperature": 0.75, "top_k": 40, "top_p": 0.875, "min_p": 0.0625, "repetition_penalty": 1.25,
                     "seed": str(MAX_U64), "presence_penalty": 1.5, "frequency_penalty": -0.5,
                     "logit_bias": [{"token_id": 11, "bias": -100}, {"token_id": 49151, "bias": 2.5}]},
        "top_logprobs": 20}},
    GENERATE_ZEROS: {"generate": {
        "request_id": 1, "token_ids": [5], "max_tokens": 1,
        "sampling": {"temperature": 0, "top_k": 0, "top_p": 0, "min_p": 0, "seed": 0, "presence_penalty": 0,
                     "frequency_penalty": 0},
        "top_logprobs": 0}},
    GENERATE_MASKED: {"generate": {
        "request_id": 3, "token_ids": [5, 6], "max_tokens": 9, "stop_ids": [2],
        "sampling": {"allowed_token_ids": [2, 300, 49151], "banned_token_ids": [300]},
        "prompt_logprobs": 20, "min_tokens": 4, "cache_salt": "00ff5a", "kv_from": [5, 300]}},
    GENERATE_GRAMMAR: {"generate": {
        "request_id": 4, "token_ids": [5], "max_tokens": 64, "stop_ids": [0],
        "grammar": {"kind": "GRAMMAR_KIND_JSON_SCHEMA", "source": "{\"type\":\"object\"}", "strict": True}}},
    CANCEL: {"cancel": {"request_id": MAX_U32, "is_complete": True}},
    PAUSE: {"pause": {"request_id": 8}},
    RESUME: {"resume": {"request_id": 9}},
    DRAIN: {"drain": {}},
    VOCABULARY: {"vocabulary": {"num_tokens": 49152, "num_bytes": 300000, "first_id": 256, "lengths": [0, 3, 1],
                                "spellings": "00ff610a"}},
    EMBED: {"embed": {"request_id": 12, "token_ids": [1, 300, 49151], "pooling": "POOLING_MEAN",
                      "cache_salt": "00ff5a", "second_type_from": 2}},
    RELEASE_KV: {"release_kv": {"descriptor": 5}},
    HELLO: {"hello": {"protocol_version": 3, "kind": "cpu", "build": "0.1.0", "numerics_id": "cpu-f32-1",
                      "sandbox": "landlock+mdwe+seccomp"}},
    LOAD_PROGRESS: {"load_progress": {"loaded_bytes": 1 << 33, "total_bytes": str(MAX_U64)}},
    READY: {"ready": {
        "model_identity": "5f3e-98765432-1700000000-42", "architecture": "llama", "device": "cpu, 2 threads ✓",
        "vocab_size": 49152, "max_model_len": 2048, "max_num_seqs": 64, "max_num_batched_tokens": 256,
        "block_size": 32, "num_blocks": 1456, "weights_bytes": 98304000, "kv_cache_bytes": 1 << 30,
        "kv_cache_type": "q8_0", "embedding_size": 576, "shared_weights_bytes": 98300000,
        "weights_descriptor": 7, "scores_pairs": True, "numerics_id": "cpu-f32-1-long", "num_ranks": 2}},
    STEP: {"step": {"step": str(MAX_U64), "outputs": [
        {"request_id": 7, "first_index": 3, "token_ids": [11], "finish_reason": "FINISH_REASON_MAX_TOKENS",
         "logprobs": [{"logprob": -0.5, "top_ids": [11, 49151], "top_logprobs": [-0.5, -1.25]}]},
        {"request_id": 8, "first_index": 0, "token_ids": [0]}],
        "first_outputs": [{"request_id": 8, "num_cached_tokens": 96, "queued_us": 1500, "prefill_us": 1 << 33}]}},
    STEP_EMPTY: {"step": {"step": 1, "outputs": []}},
    HEARTBEAT: {"heartbeat": {"phase": "PHASE_DECODE", "step": 12345678901, "num_requests": 64,
                              "num_free_blocks": 1455}},
    REQUEST_ERROR: {"request_error": {"request_id": 7, "code": "ERROR_CODE_OUT_OF_MEMORY",
                                      "message": "The KV cache holds 512 tokens."}},
    PROMPT_LOGPROBS: {"prompt_logprobs": {"request_id": 7, "first_index": 257, "logprobs": [
        {"logprob": -0.5, "top_ids": [11, 49151], "top_logprobs": [-0.5, -1.25]},
        {"logprob": -12.5, "top_ids": [], "top_logprobs": []}]}},
    EMBEDDING: {"embedding": {"request_id": 12, "values": [0.5, -1.25, 0], "num_cached_tokens": 96,
                              "queued_us": 1500, "prefill_us": 1 << 33}},
    STATS: {"stats": {name: 100 + i for i, name in enumerate(STATS_FIELDS)}},
    FAILURE: {"failure": {"exit_code": 65, "message": "model.gguf: the magic is 0x00000000."}},
    FAILURE_OF_MEMORY: {"failure": {"exit_code": 71, "message": "The GPU's memory is too small.",
                                    "device": "NVIDIA H200", "required_bytes": 1 << 40, "available_bytes": 0}},
}

vectors = []


def add(name, direction, data, frames=(), messages=(), error=None):
    vectors.append({"name": name, "direction": direction, "hex": data.hex(),
                    "frames": [message.hex() for message in frames], "messages": list(messages), "error": error})


def add_messages(name, direction, members):
    add(name, direction, b"".join(frame(message) for _, message in members),
        [message for _, message in members], [member for member, _ in members])


def declared(length: int) -> bytes:
    return varint(length) + b"\x0a"


for direction, first, members, limit in (("to_runner", CANCEL, TO_RUNNER, TO_RUNNER_LIMIT),
                                         ("from_runner", HELLO, FROM_RUNNER, FROM_RUNNER_LIMIT)):
    name = {CANCEL: "cancel", HELLO: "hello"}[first]
    add(f"nothing at all, {direction}", direction, b"")
    add_messages(f"every kind of message in one chunk, {direction}", direction, members)
    add(f"a length of more bytes than it needs, {direction}", direction,
        bytes([len(first) | 0x80, 0x80, 0x80, 0x80, 0]) + first, [first], [name])
    add(f"one byte over the limit, {direction}", direction, frame(first) + declared(limit + 1), [first], [name],
        "oversize")
    add(f"exactly the limit, and the stream ends, {direction}", direction, declared(limit), error="truncated")
    add(f"the largest length of 32 bits, {direction}", direction, declared(MAX_U32), error="oversize")
    add(f"a length that 32 bits would take for 1, {direction}", direction, declared((1 << 32) + 1), error="oversize")
    add(f"the largest length of 5 bytes, {direction}", direction, declared((1 << 35) - 1), error="oversize")
    add(f"a varint of 6 bytes, {direction}", direction, bytes([0x81, 0x80, 0x80, 0x80, 0x80, 0x00]), error="varint")
    add(f"a varint of 11 bytes after a good frame, {direction}", direction, frame(first) + b"\xff" * 10 + b"\x01",
        [first], [name], "varint")
    add(f"the stream ends inside the length, {direction}", direction, frame(first) + b"\x80", [first], [name],
        "truncated")
    add(f"the stream ends before the message, {direction}", direction, b"\x05", error="truncated")
    add(f"the stream ends one byte early, {direction}", direction, frame(first) + frame(first)[:-1], [first], [name],
        "truncated")
    add(f"a frame without a message, {direction}", direction, frame(first) + frame(b""),
        [first, b""], [name], "empty")
    newer = nested(99, b"\x08\x01")
    add(f"a member of the oneof that a newer version may have, {direction}", direction, frame(newer), [newer],
        error="empty")
    garbage = b"\xff\xff\xff\xff"
    add(f"a frame of bytes that are no protobuf, {direction}", direction, frame(first) + frame(garbage),
        [first, garbage], [name], "garbage")
    longer = b"\x0a\x7f\x08\x01"
    add(f"a member that is longer than its frame, {direction}", direction, frame(longer), [longer], error="garbage")
    printed = b"model loaded\n"  # what a library that prints would put there: 'm' is a length of 109
    add(f"text where frames should be, {direction}", direction, printed, error="truncated")

for member, message in TO_RUNNER + FROM_RUNNER:
    direction = "to_runner" if (member, message) in TO_RUNNER else "from_runner"
    suffix = {GENERATE_ZEROS: " whose optional fields are zeros", GENERATE_MASKED: " with masks, prompt scores and other caches",
              GENERATE_GRAMMAR: " with a grammar",
              STEP_EMPTY: " without outputs", FAILURE_OF_MEMORY: " for want of memory"}.get(message, "")
    add_messages(f"one {member}{suffix}", direction, [(member, message)])
    vectors[-1]["json"] = [JSON[message]]
add_messages("a hello of protocol version 999", "from_runner", [("hello", HELLO_999)])

unknown_in_cancel = nested(2, number(1, 8) + number(1000, 5) + text(1001, "later"))
add("unknown fields in a known message, to_runner", "to_runner", frame(unknown_in_cancel), [unknown_in_cancel],
    ["cancel"])
unknown_in_step = nested(4, number(1, 6) + text(77, "later"))
add("unknown fields in a known message, from_runner", "from_runner", frame(unknown_in_step), [unknown_in_step],
    ["step"])
# A list of numbers may also come one number at a time, as old encoders wrote it.
unpacked = nested(1, number(1, 7) + number(2, 5) + number(2, 6) + number(4, 1))
add("token ids that are not packed", "to_runner", frame(unpacked), [unpacked], ["generate"])

assert len({vector["name"] for vector in vectors}) == len(vectors)
lines = ",\n".join(json.dumps(vector) for vector in vectors)
pathlib.Path(__file__).with_name("frames.json").write_text(f"[\n{lines}\n]\n")
