// A model that several processes compute together has the bits that one process gives it.
#include "test/fixtures/tensor_parallel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "cpu-runner/cpu_backend.h"
#include "cpu-runner/isa.h"
#include "cpu-runner/kernels/kernels.h"
#include "cpu-runner/thread_pool.h"
#include "runner/backend/forwarding_backend.h"
#include "runner/commands/loaded_model.h"
#include "runner/commands/memory_plan.h"
#include "runner/commands/system_errors.h"
#include "test/fixtures/golden_models.h"
#include "test/fixtures/kv_files.h"
#include "test/fixtures/temporary_folder.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

// What fn returns for the model that so many ranks have loaded.
template <typename Fn>
auto with_ranks(EngineFlags flags, uint32_t num_ranks, const Fn& fn) {
  flags.num_ranks = num_ranks;
  if (const auto started = flags.start_ranks(); !started.ok()) FAIL(started.error().message);
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  if (flags.follows()) follow_leader(flags, ModelFiles::open(flags.model), std::move(backend));
  if (!backend.ok()) FAIL(backend.error().message);
  const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
  if (!loaded.ok()) FAIL(loaded.error().message);
  return fn(*loaded);
}

// The error of a load by two ranks. backend_of makes the backend that a rank takes of its own.
using BackendOfRank = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>, bool follows)>;
Error refusal_by_two_ranks(EngineFlags flags, const BackendOfRank& backend_of = nullptr,
                           const LoadProgressFn& progress = {}) {
  flags.num_ranks = 2;
  if (const auto started = flags.start_ranks(); !started.ok()) FAIL(started.error().message);
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  if (backend.ok() && backend_of != nullptr) backend = backend_of(*std::move(backend), flags.follows());
  if (flags.follows()) follow_leader(flags, ModelFiles::open(flags.model), std::move(backend));
  const Result<LoadedModel> loaded =
      with_system_errors([&] { return load(flags, *std::move(backend), progress); });
  if (loaded.ok()) FAIL("the model is loaded");
  return loaded.error();
}

// A rank that the system refuses memory when it loads a matrix, or that fails in another way.
class FailingBackend final : public ForwardingBackend {
 public:
  FailingBackend(std::unique_ptr<Backend> backend, bool throws)
      : ForwardingBackend(*backend), own_(std::move(backend)), throws_(throws) {}

  Result<WeightHandle> load_matrix(std::span<const TensorView>) override {
    if (throws_) throw std::bad_alloc();
    return Error{ExitCode::kTryAgain, "This rank cannot load it."};
  }

 private:
  const std::unique_ptr<Backend> own_;
  const bool throws_;
};

// What the kernels of a rank have multiplied.
struct Multiplications {
  uint64_t products;   // of weights
  uint64_t attention;  // of queries with keys, and of weights of positions with values
};

// The kernels of this processor, counted.
namespace counting_kernels {

Multiplications* of_this_rank = nullptr;

void add(uint64_t Multiplications::*kind, uint64_t count) {
  std::atomic_ref(of_this_rank->*kind).fetch_add(count, std::memory_order_relaxed);
}

const Kernels& counted() {
  return **kernels_for("");
}

void multiply(const TiledWeights& weights, size_t tile, const Columns& columns, float* out,
              size_t out_stride) {
  constexpr uint64_t kTileRows = 32;
  add(&Multiplications::products, kTileRows * weights.columns * columns.count);
  counted().multiply_i8(weights, tile, columns, out, out_stride);
}

void count_attention(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, uint32_t first,
                     uint32_t end) {
  for (uint32_t i = 0; i < num_queries; ++i) {
    const uint64_t seen_from = std::max(first, queries[i].first_position);
    const uint64_t seen_to = std::min(end, queries[i].end_position);
    add(&Multiplications::attention, 2 * kv.layout.head_dim * (seen_to - seen_from));
  }
}

void attend(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring) {
  count_attention(kv, queries, num_queries, 0, UINT32_MAX);
  counted().attend(kv, queries, num_queries, scoring);
}

void attend_split(const KvView& kv, const AttendQuery* queries, uint32_t num_queries, Scoring scoring,
                  uint32_t split) {
  count_attention(kv, queries, num_queries, split * kSplitPositions, (split + 1) * kSplitPositions);
  counted().attend_split(kv, queries, num_queries, scoring, split);
}

const Kernels& table() {
  static const Kernels kTable = [] {
    Kernels kernels = counted();
    kernels.multiply_i8 = multiply;
    kernels.attend = attend;
    kernels.attend_split = attend_split;
    return kernels;
  }();
  return kTable;
}

}  // namespace counting_kernels

// Ends the test program if a test hangs, since a hanging load cannot be asked to end.
struct Patience {
  Patience() { alarm(120); }
  ~Patience() { alarm(0); }
};

Logits logits_with(const EngineFlags& flags, uint32_t num_ranks, const std::vector<uint32_t>& ids) {
  return with_ranks(flags, num_ranks, [&](const LoadedModel& loaded) { return logits_of(loaded, ids); });
}

}  // namespace

TEST_CASE("tensor parallel: each architecture has the same logits with any number of ranks") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const bool is_narrow = model.name == "qwen3moe";
    const std::vector<uint32_t> ids = Golden(model).ids();
    for (const std::string& path :
         {is_narrow ? experts.path() : f32_path(model), is_narrow ? experts.path() : q8_0_path(model)}) {
      CAPTURE(path);
      EngineFlags flags = small_flags_for(path);
      flags.max_model_len = model.max_positions;
      const Logits expected = logits_with(flags, 1, ids);
      CHECK(same_bits(logits_with(flags, 2, ids), expected));
    }
  }
}

TEST_CASE("tensor parallel: each architecture with more KV heads has the same logits with more ranks") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    for (const std::string& path : {f32_path(model), q8_0_path(model)}) {
      CAPTURE(path);
      const TemporaryFile file(with_more_kv_heads(path).bytes());
      EngineFlags flags = small_flags_for(file.path());
      flags.max_model_len = model.max_positions;
      const Logits expected = logits_with(flags, 1, ids);
      for (const uint32_t num_ranks : {3u, 4u}) {
        CAPTURE(num_ranks);
        CHECK(same_bits(logits_with(flags, num_ranks, ids), expected));
      }
    }
  }
}

TEST_CASE("tensor parallel: what ranks share of a model is known from its hyper-parameters") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const Result<ModelFile> file = ModelFile::open(f32_path(model));
    REQUIRE(file.ok());
    const Result<ModelConfig> config = read_config(*file, "");
    REQUIRE(config.ok());
    const Result<CountedWeights> counted = count_weights(*file, *config, **make_cpu_backend({}));
    REQUIRE(counted.ok());
    CHECK(shared_sizes_of(*config) == shared_sizes_of(counted->spec));
  }
}

TEST_CASE("tensor parallel: ranks have the same logits with threads of any number of NUMA nodes") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.golden);
    const std::vector<uint32_t> ids = Golden(model).ids();
    EngineFlags flags = small_flags_for(model.name == "qwen3moe" ? experts.path() : q8_0_path(model));
    flags.max_model_len = model.max_positions;
    const Logits expected = logits_with(flags, 1, ids);
    for (const auto& [num_threads, num_nodes] : {std::pair(2u, 2u), std::pair(5u, 2u), std::pair(8u, 4u)}) {
      CAPTURE(num_threads);
      CAPTURE(num_nodes);
      flags.num_threads = num_threads;
      flags.num_nodes = num_nodes;
      CHECK(same_bits(logits_with(flags, 2, ids), expected));
    }
  }
}

TEST_CASE("tensor parallel: the threads of a rank are of as few NUMA nodes as possible") {
  EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  flags.num_threads = 8;
  const auto device = [](const LoadedModel& loaded) { return loaded.backend->device().name(); };
  const auto device_with = [&](uint32_t num_nodes) {
    flags.num_nodes = num_nodes;
    return with_ranks(flags, 2, device);
  };
  CHECK(device_with(1).ends_with(", 4 threads in each of 2 ranks"));
  CHECK(device_with(2).ends_with(", 4 threads in each of 2 ranks"));
  CHECK(device_with(4).ends_with(", 4 threads on 2 nodes in each of 2 ranks"));
}

TEST_CASE("tensor parallel: each type of weights has the same logits with any number of ranks") {
  const std::vector<uint32_t> ids = count_from(3, 40);
  for (const TensorType type : {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0,
                                TensorType::kQ4_0, TensorType::kQ4_1, TensorType::kQ4_K, TensorType::kQ6_K}) {
    CAPTURE(type_name(type));
    const TemporaryFile file(write_tiny_llama(llama_of(type)).bytes());
    for (const KvType kv_type : {KvType::kF16, KvType::kQ8_0}) {
      EngineFlags flags = small_flags_for(file.path());
      flags.kv_cache_type = kv_type;
      const Logits expected = logits_with(flags, 1, ids);
      for (const uint32_t num_ranks : {2u, 3u, 4u, 8u}) {
        CAPTURE(num_ranks);
        CHECK(same_bits(logits_with(flags, num_ranks, ids), expected));
      }
    }
  }
}

TEST_CASE("tensor parallel: requests in company have the same tokens with any number of ranks") {
  const TemporaryFile experts(wide_qwen3moe().bytes());
  for (const std::string& path :
       {golden_model_path("llama3-q8_0.gguf"), golden_model_path("gemma3-q8_0.gguf"), experts.path(),
        golden_model_path("gpt2-q8_0.gguf"), golden_model_path("olmo2-q8_0.gguf"),
        golden_model_path("gemma2-q8_0.gguf"), golden_model_path("gpt-oss-q8_0.gguf")}) {
    CAPTURE(path);
    const EngineFlags flags = small_flags_for(path);
    uint64_t num_accepted_drafts = 0;
    const auto answers = [&](const LoadedModel& loaded) {
      auto all = answers_with(loaded, 60);
      num_accepted_drafts = loaded.engine->counts().num_accepted_drafts;
      return all;
    };
    const auto expected = with_ranks(flags, 1, answers);
    CHECK(with_ranks(flags, 2, answers) == expected);
    CHECK(num_accepted_drafts > 0);
  }
}

TEST_CASE("tensor parallel: an encoder has the same vectors with any number of ranks") {
  using Encoder = std::pair<std::string, Pooling>;
  for (const auto& [name, pooling] :
       {Encoder{"bert-q8_0.gguf", Pooling::kMean}, Encoder{"roberta-q8_0.gguf", Pooling::kCls},
        Encoder{"nomic-bert-q8_0.gguf", Pooling::kMean}, Encoder{"bert-rank", Pooling::kRank},
        Encoder{"roberta-rank", Pooling::kRank}}) {
    CAPTURE(name);
    const EngineFlags flags = small_flags_for(golden_model_path(name));
    const auto vectors = [&](const LoadedModel& loaded) { return vectors_with(loaded, pooling); };
    const Logits expected = with_ranks(flags, 1, vectors);
    CHECK(expected.size() == 4);
    for (const uint32_t num_ranks : {2u, 3u, 4u}) {
      CAPTURE(num_ranks);
      CHECK(same_bits(with_ranks(flags, num_ranks, vectors), expected));
    }
  }
}

TEST_CASE("tensor parallel: no rank holds more than its part of the weights and a tenth") {
  const TemporaryFile file(write_tiny_llama(llama_of(TensorType::kQ8_0)).bytes());
  const auto bytes = [](const LoadedModel& loaded) {
    return static_cast<double>(loaded.backend->weights_bytes());
  };
  const double whole = with_ranks(small_flags_for(file.path()), 1, bytes);
  // The first rank has the largest part.
  for (const uint32_t num_ranks : {2u, 4u})
    CHECK(with_ranks(small_flags_for(file.path()), num_ranks, bytes) <= 1.1 * whole / num_ranks);
}

TEST_CASE(
    "tensor parallel: no rank multiplies more than its part and a tenth, in products and in attention") {
  // Heads and rows divide by 2 and by 4.
  const TemporaryFile file(write_tiny_llama(llama_of(TensorType::kQ8_0)).bytes());
  // Shared by all ranks, which are processes.
  auto* const counted =
      static_cast<Multiplications*>(mmap(nullptr, sizeof(Multiplications) * kMaxRanks, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(counted != MAP_FAILED);
  const auto count = [&](uint32_t num_ranks) {
    std::fill_n(counted, kMaxRanks, Multiplications{});
    EngineFlags flags = small_flags_for(file.path());
    flags.num_ranks = num_ranks;
    REQUIRE(flags.start_ranks().ok());
    counting_kernels::of_this_rank = &counted[flags.ranks == nullptr ? 0 : flags.ranks->rank()];
    const BackendOptions options = flags.backend_options();
    Result<std::unique_ptr<ThreadPool>> threads = ThreadPool::create(options.num_threads);
    REQUIRE(threads.ok());
    Result<std::unique_ptr<Backend>> backend =
        make_cpu_backend_on(*std::move(threads), options, &counting_kernels::table());
    if (flags.follows()) follow_leader(flags, ModelFiles::open(flags.model), std::move(backend));
    const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
    if (!loaded.ok()) FAIL(loaded.error().message);
    (void)logits_of(*loaded, count_from(3, 40));
    return std::vector<Multiplications>(counted, counted + num_ranks);
  };
  const Multiplications whole = count(1).front();
  CHECK(whole.products > 0);
  CHECK(whole.attention > 0);
  for (const uint32_t num_ranks : {2u, 4u}) {
    CAPTURE(num_ranks);
    Multiplications sum{};
    for (const Multiplications& rank : count(num_ranks)) {
      CHECK(static_cast<double>(rank.products) <= 1.1 * static_cast<double>(whole.products) / num_ranks);
      CHECK(rank.attention == whole.attention / num_ranks);
      sum.products += rank.products;
      sum.attention += rank.attention;
    }
    CHECK(sum.products >= whole.products);
    CHECK(sum.attention == whole.attention);
  }
  munmap(counted, sizeof(Multiplications) * kMaxRanks);
}

TEST_CASE("tensor parallel: what ranks exchange is what docs/performance.md says of a token") {
  const TinyLlama model = llama_of(TensorType::kQ8_0);
  const TemporaryFile file(write_tiny_llama(model).bytes());
  const auto given = [&](const LoadedModel& loaded) {
    const uint64_t before = loaded.ranks->num_given();
    (void)logits_of(loaded, {1});
    return loaded.ranks->num_given() - before;
  };
  // In each layer hidden twice, attention and the feed-forward part; the embedding, if it is this rank's.
  const uint64_t of_layer = (2 * model.hidden + model.hidden + model.ffn) / 2;
  CHECK(with_ranks(small_flags_for(file.path()), 2, given) == model.num_layers * of_layer + model.hidden);
  // Norms of all heads together take queries and keys too: here 2 layers of 4 heads and 2 KV heads of 16.
  const uint64_t of_olmo2_layer = (2 * 64 + 64 + 96 + 64 + 32) / 2;
  CHECK(with_ranks(small_flags_for(golden_model_path("olmo2-f32.gguf")), 2, given) ==
        2 * of_olmo2_layer + 64);
}

TEST_CASE("tensor parallel: blocks that one rank has kept are adopted by two, and by one again") {
  const TemporaryFile file(write_tiny_llama(llama_of(TensorType::kQ8_0)).bytes());
  EngineFlags flags = small_flags_for(file.path());
  flags.kv_memory = std::make_shared<MemoryFile>(sized_memory(uint64_t{1} << 30));
  flags.kv_sources = std::make_shared<KvSources>();
  const auto computed = [](const LoadedModel& loaded) {
    std::vector<uint32_t> prompt = count_from(1, 90);
    CHECK_FALSE(loaded.engine->add(sequence_of(1, prompt, 4)));
    std::vector<uint32_t> answer;
    while (loaded.engine->has_work())
      for (const NewToken& token : loaded.engine->step().tokens) answer.push_back(token.token_id);
    return std::pair(answer, loaded.engine->scheduler().counts().num_prefill_tokens);
  };
  const auto [answer, num_computed] = with_ranks(flags, 2, computed);
  CHECK(num_computed == 90);
  for (const uint32_t num_ranks : {1u, 3u}) {
    const auto [again, num_again] = with_ranks(flags, num_ranks, computed);
    CHECK(again == answer);
    CHECK(num_again < flags.block_size + 1);
  }
}

TEST_CASE("tensor parallel: a model is planned for ranks that are not started as for those that are") {
  EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  flags.num_ranks = 2;
  flags.num_threads = 5;
  const auto planned = [&](const ModelFile& file, Backend& backend) {
    const Result<MemoryPlan> plan = plan_memory(flags, file, backend, {});
    if (!plan.ok()) FAIL(plan.error().message);
    return *plan;
  };
  const MemoryPlan expected =
      with_ranks(flags, 2, [&](const LoadedModel& loaded) { return planned(loaded.file, *loaded.backend); });
  const Result<ModelFile> file = read_model_file(flags);
  REQUIRE(file.ok());
  const std::unique_ptr<Backend> backend = *make_cpu_backend(flags.backend_options());
  const MemoryPlan plan = planned(*file, *backend);
  CHECK(backend->device().name().ends_with(", 3 threads in each of 2 ranks"));
  CHECK(plan.weights == expected.weights);
  CHECK(plan.kv_cache == expected.kv_cache);
  CHECK(plan.step.rows == expected.step.rows);
  CHECK(plan.step.attention == expected.step.attention);
  CHECK(plan.step.logits == expected.step.logits);
  flags.num_ranks = 1;
  flags.num_threads = 3;
  const std::unique_ptr<Backend> alone = *make_cpu_backend(flags.backend_options());
  const MemoryPlan of_one = planned(*file, *alone);
  // The rows of each and those on the boards; what each draws from, and the logits on the boards.
  CHECK(plan.step.rows == 3 * of_one.step.rows);
  const uint64_t of_boards = 2 * kMaxHeadRows * 272 * sizeof(float);
  CHECK(plan.step.logits > of_one.step.logits + of_boards);
  // Each rank is a process.
  CHECK(usable_memory(flags, *backend).process > usable_memory(flags, *alone).process * 3 / 2);
}

TEST_CASE("tensor parallel: only the leader holds the KV memory of other runners") {
  const Patience patience;
  EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  flags.num_ranks = 2;
  flags.kv_memory = std::make_shared<MemoryFile>(sized_memory(1 << 20));
  flags.kv_sources = std::make_shared<KvSources>();
  {
    Result<MemoryFile> other = MemoryFile::create("of-another-runner");
    REQUIRE(other.ok());
    REQUIRE(other->resize(1 << 20).ok());
    flags.kv_sources->add(1, *std::move(other));
  }
  const auto num_held = [] {
    return std::ranges::count_if(std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
      std::error_code closed;  // the iterator's own descriptor is listed too
      return read_symlink(entry.path(), closed).string().find("of-another-runner") != std::string::npos;
    });
  };
  REQUIRE(flags.start_ranks().ok());
  const bool holds = num_held() > 0;
  const auto agreed = flags.ranks->agree(
      flags.follows() && holds ? Error{ExitCode::kInternal, "A follower holds it."} : Result<void>());
  if (flags.follows()) {
    (void)flags.ranks->hear();
    _exit(0);
  }
  CHECK(agreed.ok());
  CHECK(holds);
}

TEST_CASE("tensor parallel: a leader that cannot load says why and ends the ranks that wait for it") {
  const Patience patience;
  CHECK(refusal_by_two_ranks(small_flags_for("/nonexistent.gguf")).exit_code == ExitCode::kNoFile);
  // The others were told the plan, and wait where all say that they have loaded.
  const EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  const Error error =
      refusal_by_two_ranks(flags, nullptr, [](uint64_t, uint64_t) { throw std::bad_alloc(); });
  CHECK(error.exit_code == ExitCode::kSystem);
}

TEST_CASE("tensor parallel: a rank that cannot load ends the load with its reason") {
  const Patience patience;
  const EngineFlags flags = small_flags_for(golden_model_path("llama3-q8_0.gguf"));
  for (const bool throws : {false, true}) {
    const Error error = refusal_by_two_ranks(flags, [&](std::unique_ptr<Backend> backend, bool follows) {
      if (follows) backend = std::make_unique<FailingBackend>(std::move(backend), throws);
      return backend;
    });
    CHECK(error.exit_code == (throws ? ExitCode::kSystem : ExitCode::kTryAgain));
    CHECK(error.message.ends_with(throws ? "The system refused memory." : "This rank cannot load it."));
  }
}

TEST_CASE("tensor parallel: so many ranks as cannot share the model are refused") {
  const TemporaryFile file(write_tiny_llama({.num_heads = 4, .num_kv_heads = 2}).bytes());
  EngineFlags flags = small_flags_for(file.path());
  flags.num_ranks = 3;  // which is no multiple of 2
  REQUIRE(flags.start_ranks().ok());
  Result<std::unique_ptr<Backend>> backend = make_cpu_backend(flags.backend_options());
  if (flags.follows()) follow_leader(flags, ModelFiles::open(flags.model), std::move(backend));
  const Result<LoadedModel> loaded = load(flags, *std::move(backend), {});
  REQUIRE_FALSE(loaded.ok());
  CHECK(loaded.error().exit_code == ExitCode::kUsage);
  // They need not be started to know it.
  flags.ranks = nullptr;
  const Result<ModelFile> model = read_model_file(flags);
  REQUIRE(model.ok());
  const Result<MemoryPlan> plan = plan_memory(flags, *model, **make_cpu_backend(flags.backend_options()), {});
  REQUIRE_FALSE(plan.ok());
  CHECK(plan.error().message == loaded.error().message);
}

}  // namespace runnel
