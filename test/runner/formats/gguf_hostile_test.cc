// Files with faults. Each is refused with a sentence that names the fault. The build of these tests with
// sanitizers shows that nothing is read outside the file.
//
// The classes of faults that readers of model files are known for, and where each is tested:
//
//   counts of keys and tensors      here: counts that cannot be true
//   sizes that overflow             here: tensors of a wrong kind; blocks of quants whose bytes overflow
//   alignment, padding              here: an alignment that is none; tensors of a wrong kind
//   data outside of the file        here: a file cut anywhere; tensors of a wrong kind
//   sums of sizes                   here: tensors of a wrong kind (one inside another); a head without end
//   lengths of strings and arrays   here: counts that cannot be true
//   one type taken for another      here: values of no known kind; models/config_test;
//                                   gateway/models/gguf.test
//   names that come twice           here: values of no known kind; tensors of a wrong kind
//   nested arrays                   here: values of no known kind
//   special ids, vocabularies       models/config_test; gateway/models/model-slot.test: the gateway reads
//   them
//   division by zero                models/config_test; e2e/broken-models.test
//   cut while it is mapped          here: a file cut short while it is mapped
//   all of these in any mixture     test/fuzz

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "runner/formats/model_file.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// The message of the refusal, without the path at its beginning.
std::string refusal(const std::string& bytes) {
  const TemporaryFile file(bytes);
  const Result<ModelFile> opened = ModelFile::open(file.path());
  if (opened) return "accepted";
  CHECK(opened.error().exit_code == ExitCode::kBadModel);
  const std::string& message = opened.error().message;
  REQUIRE(message.starts_with(file.path() + " "));
  return message.substr(file.path().size() + 1);
}

// The refusal of a small file with one metadata entry and two tensors, after `change`.
std::string refusal_of(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer;
  writer.u32("key", 1);
  writer.tensors.push_back({"first", {8, 2}, 0, std::string(64, 'x'), std::nullopt});
  writer.tensors.push_back({"second", {8}, 0, std::string(32, 'y'), std::nullopt});
  change(writer);
  return refusal(writer.bytes());
}

TEST_CASE("the file that the hostile ones are made from is accepted") {
  CHECK(refusal_of([](GgufWriter&) {}) == "accepted");
}

TEST_CASE("a file that begins otherwise is no GGUF file") {
  CHECK(refusal("") == "is empty.");
  CHECK(refusal("GG") == "is not a GGUF file: it begins with \"GG\".");
  CHECK(refusal("PK\x03\x04zip") == "is not a GGUF file: it begins with \"PK\\x03\\x04\".");
  CHECK(refusal_of([](GgufWriter& w) { w.version = 1; }) ==
        "is GGUF version 1; versions 2 and 3 are supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.version = 4; }) ==
        "is GGUF version 4; versions 2 and 3 are supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.version = 0x03000000; }) ==
        "is a big-endian GGUF file; only little-endian ones are supported.");
}

TEST_CASE("a file cut anywhere is refused, and says that it is truncated") {
  TinyLlama small;
  small.num_layers = 1;
  small.hidden = 32;
  small.num_heads = 2;
  small.num_kv_heads = 1;
  small.ffn = 32;
  small.vocab = 4;
  GgufWriter writer = write_tiny_llama(small);
  writer.array("strings", kGgufString, 2, raw_text("a") + raw_text("bc"));
  writer.entry("flag", kGgufBool, raw<uint8_t>(1));
  const std::string bytes = writer.bytes();
  const TemporaryFile file(bytes);
  REQUIRE(ModelFile::open(file.path()).ok());
  for (size_t size = bytes.size() - 1; size >= 4; --size) {
    CAPTURE(size);
    REQUIRE(truncate(file.path().c_str(), static_cast<off_t>(size)) == 0);
    const Result<ModelFile> opened = ModelFile::open(file.path());
    REQUIRE_FALSE(opened.ok());
    REQUIRE(opened.error().exit_code == ExitCode::kBadModel);
    // A file that is cut near its beginning may also be refused because its counts cannot be true.
    const bool says_so = opened.error().message.find("is truncated: ") != std::string::npos ||
                         opened.error().message.find("remaining bytes can hold") != std::string::npos;
    REQUIRE_MESSAGE(says_so, opened.error().message);
  }
}

TEST_CASE("a cut tensor is named with where it ends") {
  GgufWriter writer;
  writer.tensors.push_back({"blk.3.attn_q.weight", {8}, 0, std::string(32, 'x'), std::nullopt});
  const std::string bytes = writer.bytes();
  CHECK(refusal(bytes.substr(0, bytes.size() - 1)) ==
        "is truncated: tensor \"blk.3.attn_q.weight\" ends at byte " + std::to_string(bytes.size()) +
            ", the file has " + std::to_string(bytes.size() - 1) + ".");
}

TEST_CASE("counts that cannot be true are refused before anything is reserved") {
  static constexpr uint64_t kHuge = ~uint64_t{0};
  CHECK(refusal_of([](GgufWriter& w) {
          w.num_claimed_tensors = kHuge;
        }).starts_with("claims 18446744073709551615 tensors"));
  CHECK(refusal_of([](GgufWriter& w) {
          w.num_claimed_entries = kHuge;
        }).starts_with("claims 18446744073709551615 metadata"));
  CHECK(refusal_of([](GgufWriter& w) { w.num_claimed_tensors = 65'536; }).find("remaining bytes can hold") !=
        std::string::npos);
  CHECK(refusal_of([](GgufWriter& w) { w.num_claimed_entries = 65'537; }).find("at most 65536") !=
        std::string::npos);
  CHECK(refusal_of([](GgufWriter& w) { w.entry("s", kGgufString, raw(kHuge)); }).find("has a string of") ==
        0);
  CHECK(refusal_of([](GgufWriter& w) { w.entry("s", kGgufString, raw<uint64_t>(1 << 20)); }) ==
        "is truncated: it ends in the middle of metadata \"s\".");
  CHECK(refusal_of([](GgufWriter& w) { w.array("a", kGgufUint64, kHuge, ""); }).find("has an array of") == 0);
  CHECK(refusal_of([](GgufWriter& w) { w.array("a", kGgufUint64, 1 << 24, ""); }) ==
        "is truncated: it ends in the middle of metadata \"a\".");
  CHECK(refusal_of([](GgufWriter& w) { w.array("a", kGgufString, 1 << 24, ""); }).find("metadata \"a\"") !=
        std::string::npos);
}

TEST_CASE("values of no known kind are refused by key") {
  CHECK(refusal_of([](GgufWriter& w) { w.entry("k", 13, raw<uint64_t>(0)); }) ==
        "has a value of unknown type 13 in metadata \"k\".");
  CHECK(refusal_of([](GgufWriter& w) { w.array("k", 99, 0, ""); }) ==
        "has an array of unknown type 99 in metadata \"k\".");
  CHECK(refusal_of([](GgufWriter& w) { w.array("k", kGgufArray, 1, ""); }) ==
        "has arrays inside an array in metadata \"k\"; they are not supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.entry("k", kGgufBool, raw<uint8_t>(2)); }) ==
        "has a truth value of 2 in metadata \"k\".");
  CHECK(refusal_of([](GgufWriter& w) { w.repeat_entry("key", kGgufUint32, raw<uint32_t>(2)); }) ==
        "has metadata \"key\" twice.");
}

TEST_CASE("keys are quoted so that a terminal stays as it is") {
  const std::string message =
      refusal_of([](GgufWriter& w) { w.entry("\x1b[2J\n" + std::string(200, 'k'), 13, ""); });
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find("\"\\x1b[2J\\x0akkk") != std::string::npos);
  CHECK(message.size() < 200);
}

TEST_CASE("an invalid alignment is refused") {
  for (const uint32_t alignment : {0u, 3u, 48u, 131'072u}) {
    CHECK(refusal_of([&](GgufWriter& w) {
            w.u32("general.alignment", alignment);
          }).find("must be a power of two") != std::string::npos);
  }
  CHECK(refusal_of([](GgufWriter& w) { w.text("general.alignment", "32"); }) ==
        "has a general.alignment that is not an unsigned integer.");
}

TEST_CASE("tensors of a wrong kind, shape or place are refused by name") {
  const auto bent = [](const std::function<void(WrittenTensor&)>& change) {
    return refusal_of([&](GgufWriter& w) { change(w.tensor("second")); });
  };
  CHECK(bent([](WrittenTensor& t) { t.name = "first"; }) == "has tensor \"first\" twice.");
  const std::string unknown = bent([](WrittenTensor& t) { t.type = 16; });
  CHECK(unknown.starts_with(
      "has tensor \"second\" of type 16 (IQ2_XXS); supported are F32 (0), F16 (1), Q4_0"));
  for (const TensorType type : tensor_types()) CHECK(unknown.find(type_name(type)) != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.type = 4; }).find("of type 4;") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.type = 0xffffffff; }).find("of type 4294967295;") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.dims = {}; }).find("0 dimensions; 1 to 4") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.dims = {1, 1, 1, 1, 1}; }).find("5 dimensions") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.dims = {8, 0}; }).find("dimension 1 of size 0") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) {
          t.dims = {8};
          t.type = 2;
        }).find("not a multiple of the 32 weights in a block of Q4_0") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) {
          t.dims = {uint64_t{1} << 32, uint64_t{1} << 32, 2};
        }).find("size beyond 64 bits") != std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.dims = {uint64_t{1} << 63}; }).find("size beyond 64 bits") !=
        std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.offset = 65; }).find("not a multiple of its alignment, 32") !=
        std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.offset = ~uint64_t{31}; }).find("offset beyond 64 bits") !=
        std::string::npos);
  CHECK(bent([](WrittenTensor& t) { t.offset = 96; }).find("is truncated: tensor \"second\"") == 0);
  CHECK(bent([](WrittenTensor& t) { t.offset = 32; }) == "has tensor \"second\" inside tensor \"first\".");
  CHECK(bent([](WrittenTensor& t) { t.dims = {9}; }).find("is truncated: tensor \"second\"") == 0);
}

TEST_CASE("blocks of quants whose bytes overflow are refused, whatever their number of weights is") {
  for (const uint32_t type : {2u, 3u, 8u}) {
    CAPTURE(type);
    // The number of weights, columns * 8, overflows to 0 in 64 bits.
    for (const uint64_t columns : {uint64_t{1} << 62, uint64_t{1} << 63}) {
      CAPTURE(columns);
      const std::string message = refusal_of([&](GgufWriter& w) {
        w.tensor("second").type = type;
        w.tensor("second").dims = {columns, 8};
      });
      CHECK(message.find("\"second\"") != std::string::npos);
      CHECK(message.find("size beyond 64 bits") != std::string::npos);
    }
  }
}

TEST_CASE("a head without end is refused before it is all in memory") {
  // 17 texts of 16 MiB. They are holes in the file, which take no space on disk.
  GgufWriter writer;
  std::string head = writer.magic + raw<uint32_t>(3) + raw<uint64_t>(0) + raw<uint64_t>(17);
  const TemporaryFile file(head);
  std::fstream stream(file.path(), std::ios::binary | std::ios::in | std::ios::out);
  for (char key = 'a'; key < 'a' + 17; ++key) {
    stream.seekp(
        static_cast<std::streamoff>(head.size() + static_cast<size_t>(key - 'a') * (21 + (16 << 20))));
    stream << raw_text(std::string(1, key)) << raw<uint32_t>(kGgufString) << raw<uint64_t>(16 << 20);
  }
  stream.close();
  REQUIRE(truncate(file.path().c_str(), 300 << 20) == 0);
  const Result<ModelFile> opened = ModelFile::open(file.path());
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.error().exit_code == ExitCode::kBadModel);
  CHECK(
      opened.error().message.ends_with("has metadata \"p\" beyond its first 268435456 bytes, the limit for "
                                       "metadata and the table of tensors."));
}

TEST_CASE("a file cut short while it is mapped ends the process by SIGBUS, which the gateway knows") {
  const std::string bytes = write_tiny_llama({}).bytes();
  const TemporaryFile file(bytes);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGBUS, SIG_DFL);  // as in a build without a sanitizer
    const Result<ModelFile> opened = ModelFile::open(file.path());
    if (!opened.ok() || truncate(file.path().c_str(), 1) != 0) _exit(1);
    const std::byte last = opened->tensors().back().data.back();
    _exit(2 + std::to_integer<int>(last) % 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGBUS);
}

TEST_CASE("random damage never does more than be refused") {
  const std::string good = write_tiny_llama({}).bytes();
  const size_t head = write_tiny_llama({}).head().size();
  constexpr uint32_t kSeed = 7;
  CAPTURE(kSeed);
  std::mt19937 rng(kSeed);
  const TemporaryFile file(good);
  int num_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = good;
    const uint32_t num_changes = 1 + rng() % 4;
    for (uint32_t i = 0; i < num_changes; ++i) bytes[rng() % head] = static_cast<char>(rng() & 255);
    // Writes in place, because a file system may wait for the disk after a truncation.
    std::fstream(file.path(), std::ios::binary | std::ios::in | std::ios::out) << bytes;
    const Result<ModelFile> opened = ModelFile::open(file.path());
    if (!opened) ++num_refused;
  }
  CHECK(num_refused > 1000);
}

}  // namespace
}  // namespace runnel
