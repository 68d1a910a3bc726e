// Models that are split over several files.
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "runner/formats/model_file.h"
#include "test/fixtures/gguf_writer.h"
#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

class SplitModel {
 public:
  // Three parts with one tensor each. The first part has the number of parts.
  SplitModel() {
    for (uint32_t part = 0; part < 3; ++part) {
      GgufWriter writer;
      if (part == 0) writer.text("general.architecture", "llama");
      writer.entry("split.no", kGgufUint16, raw(static_cast<uint16_t>(part)));
      writer.entry("split.count", kGgufUint16, raw<uint16_t>(3));
      if (part == 0) writer.entry("split.tensors.count", kGgufInt32, raw<int32_t>(3));
      const float values[] = {1.0f + static_cast<float>(part), 2.0f};
      writer.tensors.push_back({"t" + std::to_string(part), {2}, 0, raw(values[0]) + raw(values[1]), {}});
      writers.push_back(writer);
    }
  }

  std::string path_of(uint32_t part) const {
    return folder.path() + "/m-0000" + std::to_string(part + 1) + "-of-00003.gguf";
  }
  Result<ModelFile> open() const {
    for (uint32_t part = 0; part < 3; ++part)
      std::ofstream(path_of(part), std::ios::binary) << writers[part].bytes();
    return ModelFile::open(path_of(0));
  }

  TemporaryFolder folder;
  std::vector<GgufWriter> writers;
};

TEST_CASE("a model without a path is refused with a sentence that says so") {
  const Result<ModelFiles> files = ModelFiles::open("");
  REQUIRE_FALSE(files.ok());
  CHECK(files.error().exit_code == ExitCode::kNoFile);
  CHECK(files.error().message == "The model's path is \"\"; give the path of a file or folder.");
}

TEST_CASE("a model that is split has the tensors of all its parts and the metadata of the first") {
  const SplitModel model;
  const Result<ModelFile> file = model.open();
  REQUIRE(file.ok());
  CHECK(file->path() == model.path_of(0));
  CHECK(file->text("general.architecture") == "llama");
  REQUIRE(file->tensors().size() == 3);
  for (uint32_t part = 0; part < 3; ++part) {
    const TensorView* const tensor = file->find_tensor("t" + std::to_string(part));
    REQUIRE(tensor != nullptr);
    float value;
    std::memcpy(&value, tensor->data.data(), sizeof(value));
    CHECK(value == 1.0f + static_cast<float>(part));
    file->release_pages(*tensor);
  }
  uint64_t bytes = 0;
  for (uint32_t part = 0; part < 3; ++part) bytes += std::filesystem::file_size(model.path_of(part));
  CHECK(file->file_bytes() == bytes);
}

TEST_CASE("another part makes another model") {
  const SplitModel model;
  const std::string identity = model.open()->identity();
  CHECK(ModelFile::open(model.path_of(0))->identity() == identity);
  const auto time = std::filesystem::last_write_time(model.path_of(2));
  std::filesystem::last_write_time(model.path_of(2), time + std::chrono::seconds(1));
  CHECK(ModelFile::open(model.path_of(0))->identity() != identity);
}

TEST_CASE("a part that is missing, or is not the first, is named") {
  const SplitModel model;
  REQUIRE(model.open().ok());
  const Error second = ModelFile::open(model.path_of(1)).error();
  CHECK(second.exit_code == ExitCode::kBadModel);
  CHECK(second.message == "\"" + model.path_of(1) +
                              "\" is part 2 of 3, as its name says; give the path of the first part, \"" +
                              model.path_of(0) + "\".");
  std::filesystem::remove(model.path_of(2));
  const Error missing = ModelFile::open(model.path_of(0)).error();
  CHECK(missing.exit_code == ExitCode::kNoFile);
  CHECK(missing.message.find(model.path_of(2)) != std::string::npos);
  CHECK(missing.message.ends_with(" It is part 3 of 3 of \"" + model.path_of(0) + "\"."));
}

TEST_CASE("parts that contradict each other, or their names, are refused with the part named") {
  const auto refusal_of = [](uint32_t part, const std::function<void(GgufWriter&)>& change) {
    SplitModel model;
    change(model.writers[part]);
    const Result<ModelFile> file = model.open();
    REQUIRE(!file.ok());
    CHECK(file.error().exit_code == ExitCode::kBadModel);
    CHECK(file.error().message.starts_with(model.path_of(part)));
    return file.error().message.substr(model.path_of(part).size() + 1);
  };
  CHECK(refusal_of(1, [](GgufWriter& w) { w.entry("split.no", kGgufUint16, raw<uint16_t>(2)); }) ==
        "has split.no 2; part 2 of 3 has 1.");
  CHECK(refusal_of(2, [](GgufWriter& w) {
          w.entry("split.count", kGgufUint16, raw<uint16_t>(4));
        }).starts_with("has split.count 4, but its name says that it is part 3 of 3"));
  CHECK(refusal_of(0, [](GgufWriter& w) { w.entry("split.count", kGgufInt32, raw<int32_t>(-3)); }) ==
        "has a split.count that is not an integer of 0 or more.");
  CHECK(refusal_of(1, [](GgufWriter& w) { w.text("split.no", "1"); }) ==
        "has a split.no that is not an integer of 0 or more.");
  CHECK(refusal_of(0, [](GgufWriter& w) { w.entry("split.tensors.count", kGgufInt32, raw<int32_t>(4)); }) ==
        "has split.tensors.count 4, but its parts have 3 tensors.");
  CHECK(refusal_of(2, [](GgufWriter& w) { w.magic = "FUGG"; }).starts_with("is not a GGUF file"));
  SplitModel twice;
  twice.writers[2].tensor("t2").name = "t0";
  CHECK(twice.open().error().message == twice.path_of(0) + " has tensor \"t0\" in two of its parts.");
}

TEST_CASE("one file that says it is a part of several, and a name of too many parts, are refused") {
  GgufWriter writer = SplitModel().writers[0];
  const TemporaryFile file(writer.bytes());
  CHECK(ModelFile::open(file.path()).error().message.find("has split.count 3, but its name says") !=
        std::string::npos);
  const Error many = ModelFile::open("/tmp/m-00001-of-99999.gguf").error();
  CHECK(many.exit_code == ExitCode::kBadModel);
  CHECK(many.message.find("says that the model has 99999 parts; 1 to 1024 are supported.") !=
        std::string::npos);
  CHECK(ModelFile::open("/tmp/m-00001-of-00000.gguf").error().exit_code == ExitCode::kBadModel);
}

}  // namespace
}  // namespace runnel
